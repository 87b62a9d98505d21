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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/format/project"
)

// source is a project's folder and the file of its variables.
type source struct {
	project *folder.Project
	envFile string
	// references are the files to which references of the last build led (project.Result.References).
	references []string
}

// contents has the content of a source at one moment.
type contents struct {
	files     project.Files
	variables map[string]string
	// problems are the reasons why the contents are incomplete and cannot be compiled. warnings are probable mistakes.
	problems, warnings []project.Problem
}

// fingerprint returns a text that changes if the size, modification time, mode or inode of a relevant file changes. It
// also returns the modification time of the newest file. It reads no file content. The text also changes if a file
// becomes inaccessible.
func (s *source) fingerprint() (text string, newest time.Time) {
	var b strings.Builder
	add := func(name string, stat func(string) (fs.FileInfo, error)) {
		info, err := stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", name, disk.Cause(err))
			return
		}
		fmt.Fprintf(&b, "%q %d %d %v %v\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode(), inode(info))
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	for _, name := range s.references {
		file := filepath.Join(s.project.Dir, filepath.FromSlash(name))
		add(file, os.Lstat)
		add(file, os.Stat)
	}
	for _, dir := range []string{"", "config"} {
		dirPath := filepath.Join(s.project.Dir, dir)
		entries, err := os.ReadDir(dirPath)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", dirPath, disk.Cause(err))
			continue
		}
		for _, e := range entries {
			name := filepath.Join(dirPath, e.Name())
			// .gitignore and .gatewrightignore decide which files are read.
			if project.IsRelevant(path.Join(dir, e.Name())) || strings.HasPrefix(e.Name(), ".g") &&
				strings.HasSuffix(e.Name(), "ignore") {
				add(name, os.Lstat)
				if e.Type()&fs.ModeSymlink != 0 {
					add(name, os.Stat)
				}
			}
		}
	}
	if s.envFile != "" {
		add(s.envFile, os.Stat)
	}
	return b.String(), newest
}

// read reads the whole source. The error is a *folder.ChangedError if a file changes during the read, or the context's
// error.
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
	if s.envFile == "" {
		return
	}
	variables, err := validate.ReadEnvFile(s.envFile)
	if err != nil {
		c.problems = append(c.problems, project.Problem{Message: err.Error()})
		return
	}
	c.variables = variables
}
