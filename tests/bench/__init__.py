"""The benchmark: our tiers and other proxies under the same loads, one after the other, and what their ratios are."""
