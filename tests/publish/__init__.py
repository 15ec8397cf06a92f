"""What the site has beside its pages: exports, reports, feeds."""
