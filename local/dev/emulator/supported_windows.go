package emulator

// supported is false: dynoxide is not built for Windows, and the S3 server
// writes its events to a descriptor that children inherit only on Unix.
const supported = false
