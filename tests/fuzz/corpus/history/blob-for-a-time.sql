UPDATE latest SET counted_to = x'ff00';
