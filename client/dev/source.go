package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/validate"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/project"
)

// source is a folder and a file of variables, as they are at a moment.
type source struct {
	project *folder.Project
	env     string
}

// contents is what was read of a source.
type contents struct {
	files     project.Files
	variables map[string]string
	// problems are why the rest is not to be compiled, empty for contents that are whole, and warnings what is probably not meant.
	problems, warnings []project.Problem
}

// look tells the state of all that is read, in a text that differs after a save, and when the youngest of it was changed. It
// costs no reading. What can't be looked at has a state of its own.
func (s *source) look() (state string, newest time.Time) {
	var b strings.Builder
	note := func(name string, look func(string) (fs.FileInfo, error)) {
		info, err := look(name)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", name, disk.Cause(err))
			return
		}
		fmt.Fprintf(&b, "%q %d %d %v %v\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode(), inode(info))
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	for _, dir := range []string{"", "config"} {
		at := filepath.Join(s.project.Dir, dir)
		entries, err := os.ReadDir(at)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", at, disk.Cause(err))
			continue
		}
		for _, e := range entries {
			name := filepath.Join(at, e.Name())
			if project.IsRead(path.Join(dir, e.Name())) || strings.HasPrefix(e.Name(), ".g") && strings.HasSuffix(e.Name(), "ignore") {
				note(name, os.Lstat)
				if e.Type()&fs.ModeSymlink != 0 {
					note(name, os.Stat)
				}
			}
		}
	}
	if s.env != "" {
		note(s.env, os.Stat)
	}
	return b.String(), newest
}

// read reads all of it. The error is a *folder.ChangedError for what is being written, or the context's.
func (s *source) read(ctx context.Context) (contents, error) {
	var c contents
	files, summary, err := s.project.Files(ctx)
	refused, isRefused := errors.AsType[*folder.RefusedError](err)
	_, isChanged := errors.AsType[*folder.ChangedError](err)
	switch {
	case ctx.Err() != nil:
		return c, context.Cause(ctx)
	case isChanged:
		return c, err
	case isRefused:
		c.problems = refused.Problems
	case err != nil:
		c.problems = []project.Problem{{Message: err.Error()}}
	}
	c.files, c.warnings = files, summary.Warnings
	s.readEnv(&c)
	return c, nil
}

// readEnv reads the variables.
func (s *source) readEnv(c *contents) {
	c.variables = map[string]string{}
	if s.env == "" {
		return
	}
	read, err := validate.ReadEnvFile(s.env)
	if err != nil {
		c.problems = append(c.problems, project.Problem{Message: err.Error()})
		return
	}
	c.variables = read
}
