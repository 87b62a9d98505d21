package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// write makes a folder have these files and no others. Their names have their digest in them, but for the last two, index.html
// and what is made of it: so new files stand beside those of the last build until the page that names them takes the old one's place at once,
// and only then does what no page names any more go. A build that is killed leaves a whole console.
func write(folder string, files []file) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // everybody may read what everybody is served
		return fmt.Errorf("make %s: %w", folder, err)
	}
	keep := map[string]bool{}
	for _, f := range files {
		keep[f.name] = true
		if err := replace(filepath.Join(folder, f.name), f.body); err != nil {
			return err
		}
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	for _, entry := range there {
		if !keep[entry.Name()] {
			if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
				return fmt.Errorf("remove what an earlier build has left: %w", err)
			}
		}
	}
	return nil
}

// replace writes a file whole or not at all. The dot in front keeps one that a killed build has left from being embedded. What is
// there already stays as it is: a compiler may be reading it.
func replace(name string, body []byte) error {
	if there, err := os.ReadFile(name); err == nil && bytes.Equal(there, body) { //nolint:gosec // it is the bundle's own file
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".unfinished-*")
	if err != nil {
		return fmt.Errorf("make a file beside %s: %w", name, err)
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // after the renaming there is none of that name
	_, err = temporary.Write(body)
	if err == nil {
		err = temporary.Chmod(0o644)
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
