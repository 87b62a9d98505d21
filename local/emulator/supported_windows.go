package emulator

// supported: dynoxide is not built for Windows, and the S3 server's notes come by
// a descriptor that children have on Unix alone.
const supported = false
