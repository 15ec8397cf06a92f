UPDATE gpus SET model = 99;
