"""A sample plugin of LOGOS, which docs/plugins.md builds line by line."""
