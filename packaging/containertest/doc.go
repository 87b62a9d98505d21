// Package containertest runs an installation of the product like a container engine, for tests. The root of a process
// is an image's root file system, or a folder with an unpacked archive. The process has its own namespaces, no
// privileges, and can write only to its volumes. The package needs no engine and no network. It needs root only if the
// kernel does not let every user create user namespaces.
//
// It is not a complete engine: a process uses the network, /proc and /dev of this machine, and its resources are not
// limited.
//
// A package with such tests needs a TestMain that calls Main, because its test binary starts itself again as the
// container. Read container_linux.go for that, layout.go and image_linux.go for the unpacked files, and
// process_linux.go for the checks of a running process.
package containertest
