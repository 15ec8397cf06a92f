UPDATE gpus SET host = -1;
