package call

// BypassProxyForHTTP is exported because http.ProxyFromEnvironment reads the environment only once per process.
var BypassProxyForHTTP = bypassProxyForHTTP
