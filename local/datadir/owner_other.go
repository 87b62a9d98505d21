//go:build !unix

package datadir

// ReturnOwnership does nothing on systems where files have no numeric owners.
func (*Dir) ReturnOwnership() error { return nil }
