"""What puts sidecars into pods: a planner, a renderer and a webhook stand here once they are built."""
