"""Why is the difference what it is: simulator, roofline, attribution, claims; everything here runs without a GPU."""
