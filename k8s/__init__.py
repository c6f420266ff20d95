"""What puts sidecars into pods: a planner decides, a renderer changes the pod, a command and a webhook ask them."""
