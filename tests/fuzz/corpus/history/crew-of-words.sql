UPDATE crews SET members = 'x' || id;
