"""Canal (alibaba/canal)."""
