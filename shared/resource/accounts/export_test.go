package accounts

// Hash returns the hash of a key's text, for tests that write records of earlier releases.
var Hash = hash
