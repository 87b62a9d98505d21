package call

// PlainGoesDirect is for tests: what http.ProxyFromEnvironment reads of the environment it reads once.
var PlainGoesDirect = plainGoesDirect
