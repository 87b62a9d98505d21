package project

import (
	"io"
	"path"
	"slices"
	"strings"
)

// This file decides for Unpack which files it keeps because references can lead to them.

// IsReferable reports whether references can lead to a file of this name: a JSON or YAML file.
func IsReferable(name string) bool {
	switch path.Ext(name) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}

// referredRanks is the number of ranks: referredRank returns 0 to referredRanks-1.
const referredRanks = 3

// referredRank returns the rank of a file to which references can lead. Files with the highest rank are left out first.
func referredRank(name string) int {
	switch {
	case slices.Contains(strings.Split(name, "/"), "node_modules"):
		return 2
	case !strings.HasPrefix(name, "config/"):
		return 1
	}
	return 0
}

// readReferred keeps the content of a file to which references can lead, if it is within the limits.
func (u *unpacker) readReferred(name string, size int64, content io.Reader) error {
	u.files[name] = nil
	if size > u.limits.FileBytes {
		return nil
	}
	rank := referredRank(name)
	u.referredBytes[rank] += size
	u.dropReferred()
	if u.keptRanks <= rank {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(content, size))
	if err != nil {
		return err
	}
	u.files[name] = data
	return nil
}

// firstDropped returns the lowest rank whose files must be left out: they exceed ConfigBytes together with the
// configuration and the files of lower ranks. If all files can be kept, it returns referredRanks. The result does not
// depend on the order of the files.
func (u *unpacker) firstDropped() int {
	total := u.configBytes
	for rank, bytes := range u.referredBytes {
		if total += bytes; total > u.limits.ConfigBytes {
			return rank
		}
	}
	return referredRanks
}

// dropReferred removes the content of files that must be left out.
func (u *unpacker) dropReferred() {
	first := u.firstDropped()
	if first >= u.keptRanks {
		return
	}
	u.keptRanks = first
	for name := range u.files {
		if !isConfiguration(name) && referredRank(name) >= first {
			u.files[name] = nil
		}
	}
}
