package accounts

// Hash is for tests that write records of earlier releases.
var Hash = hash
