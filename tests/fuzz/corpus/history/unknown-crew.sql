UPDATE latest SET crew = 99, known_crew = 99;
