extern "C" int wick_seams();

int main() { return wick_seams(); }
