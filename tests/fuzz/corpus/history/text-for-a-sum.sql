UPDATE pool_hours SET memory_sum = 'x';
