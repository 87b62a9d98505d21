// Package containertest runs what the product is installed from as an engine of containers does, for tests: an image's
// root file system, or a folder that an archive was unpacked into, as the root of a process in namespaces of its own,
// without any right, which writes to its volumes alone. It needs no engine, no network and, where the kernel lets
// everybody make user namespaces, no root.
//
// What it is not: an engine. A process has this machine's network, /proc and /dev, and nothing bounds what it takes.
//
// A package that uses it has a TestMain that calls Main: its own test binary becomes the container. Read
// container_linux.go for that, layout.go and image_linux.go for what is unpacked, process_linux.go for what is asked of a process that
// runs.
package containertest
