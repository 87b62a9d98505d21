package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/git-pkgs/gitignore"
)

// Ignore files have the same effect as in git. The library git-pkgs matches them, because its results are closest to
// those of git. For 28,024 paths in random trees with random patterns, go-git differs from `git check-ignore` for 1,100
// paths, and git-pkgs for 115. In git-pkgs, every pattern also matches all paths below a match, so that "!vendor"
// restores files in vendor that another line ignores. Also, "build/**" matches build itself, so that "!build/keep"
// restores nothing. anchorPattern converts each pattern so that it matches single paths, without the paths below them.
// With these patterns, all results equal those of git.
//
// Running git itself would require git on every machine, and would depend on the user's settings. core.excludesFile and
// .git/info/exclude are not read. Ignore files also exclude files that git tracks. Three patterns have another effect
// than in git. A character class with "/" ("[a/b]") matches nothing. A range that ends before it begins ("[b-a]")
// matches nothing, but in git its first character. "**" after other characters ("a**/b") has the effect of a single
// star, as git's documentation says, but in git it also matches folders.
const (
	ownIgnoreFile = ".gatewrightignore"
	gitIgnoreFile = ".gitignore"

	maxIgnoreBytes = 1 << 20
	maxIgnoreLine  = 4 << 10
)

// endMark is appended to each path before it is matched. No path contains it. The last segment before endMark says
// whether the path is a folder.
const endMark = "\x00"

// ignoreRules are the rules of one ignore file.
type ignoreRules struct {
	// base is the folder of the ignore file, as a path within the project. It is "" for the project's folder, and for a
	// file above the project's folder.
	base string
	// projectPath is the path from the folder of the ignore file to the project's folder, if the file is above the
	// project's folder. Otherwise it is "".
	projectPath string
	// displayName is the name of the file in messages.
	displayName string
	matcher     *gitignore.Matcher
}

func parseRules(base, projectPath, displayName string, text []byte) (ignoreRules, error) {
	r := ignoreRules{base: base, projectPath: projectPath, displayName: displayName, matcher: gitignore.New("")}
	lines := bytes.Split(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("\n"))
	for i, line := range lines {
		if len(line) > maxIgnoreLine {
			return ignoreRules{}, fmt.Errorf("line %d of %s has more than %d bytes, which no pattern needs: shorten it", i+1,
				displayName, maxIgnoreLine)
		}
		lines[i] = []byte(anchorPattern(string(line)))
	}
	r.matcher.AddPatterns(bytes.Join(lines, []byte("\n")), "")
	return r, nil
}

// anchorPattern converts a line of an ignore file to a pattern for the library. It returns "" for a line without a
// pattern. The result is relative to the file's folder and matches whole paths only.
func anchorPattern(line string) string {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if strings.HasPrefix(line, "#") {
		return ""
	}
	pattern, negated := strings.CutPrefix(line, "!")
	pattern, foldersOnly := strings.CutSuffix(pattern, "/")
	// "\/" never matches: no path begins with a slash
	if pattern == "" || endsEscaped(pattern) || strings.HasPrefix(pattern, `\/`) {
		return ""
	}
	pattern = collapseStars(unescapeSlashes(pattern))
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	if strings.HasSuffix(pattern, "/**") && pattern != "**/**" {
		pattern += "/*" // match the folder's content, but not the folder itself
	}
	out := "/" + strings.TrimPrefix(pattern, "/") + "/"
	if negated {
		out = "!" + out
	}
	if foldersOnly {
		return out + "d" + endMark
	}
	return out + "[df]" + endMark
}

// collapseStars replaces segments of more than two stars with "**". Both are equivalent in git, but in the library,
// more than two stars are equivalent to one.
func collapseStars(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		if len(segment) > len("**") && strings.Trim(segment, "*") == "" {
			segments[i] = "**"
		}
	}
	return strings.Join(segments, "/")
}

// unescapeSlashes removes the backslash before an escaped slash. In git, an escaped slash is a slash, but in the
// library it is a part of the previous segment. After "**", an escaped slash requires at least one folder.
func unescapeSlashes(pattern string) string {
	out := ""
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] != '\\' || i+1 == len(pattern):
			out += pattern[i : i+1]
			continue
		case pattern[i+1] != '/':
			out += pattern[i : i+2]
		case out == "**" || strings.HasSuffix(out, "/**"):
			out = strings.TrimSuffix(out, "**") + "*/**/"
		default:
			out += "/"
		}
		i++
	}
	return out
}

// trimSpaces removes spaces at the end of a line, but not an escaped one.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !endsEscaped(strings.TrimSuffix(line, " ")) {
		line = strings.TrimSuffix(line, " ")
	}
	return line
}

// endsEscaped reports whether the last character of text escapes the next character.
func endsEscaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// match returns the decision of an ignore file about a path. The last line that matches the path decides.
func (r ignoreRules) match(name string, folder bool) (ignored, matched bool, reason string) {
	if r.projectPath != "" {
		name = r.projectPath + "/" + name
	} else if r.base != "" {
		name = strings.TrimPrefix(name, r.base+"/")
	}
	kind := "f"
	if folder {
		kind = "d"
	}
	m := r.matcher.MatchDetail(name + "/" + kind + endMark)
	return m.Ignored, m.Matched, fmt.Sprintf("%s:%d", r.displayName, m.Line)
}

// ignored reports whether the ignore files exclude a path. reason is the line that decides.
func (w *walk) ignored(name string, folder bool) (reason string, ignored bool) {
	for i := len(w.rules) - 1; i >= 0; i-- {
		if ignored, matched, reason := w.rules[i].match(name, folder); matched {
			return reason, ignored
		}
	}
	return "", false
}

// readRules reads the rules from above the project's folder, and sets ignoreFile for the ignore files within the
// project. If the project's folder has a .gatewrightignore, only files with this name are read. Otherwise the
// .gitignore files are read, including those in parent folders up to the top of the repository. If neither the
// project's folder nor these parent folders have an ignore file, node_modules is excluded.
func (w *walk) readRules() error {
	w.ignoreFile = gitIgnoreFile
	if _, err := w.root.Stat(ownIgnoreFile); err == nil {
		w.ignoreFile = ownIgnoreFile
		return nil
	}
	if err := w.readParentRules(); err != nil {
		return err
	}
	if _, err := w.root.Lstat(gitIgnoreFile); err == nil || len(w.rules) > 0 {
		return nil
	}
	r, err := parseRules("", "", "no ignore file", []byte("node_modules"))
	w.rules = []ignoreRules{r}
	return err
}

// readParentRules reads the .gitignore files in the folders above the project's folder, from the repository's top down.
func (w *walk) readParentRules() error {
	var parents []string // nearest first
	top, ok := repositoryTop(w.dir)
	for dir := w.dir; ok && dir != top; {
		dir = filepath.Dir(dir)
		parents = append(parents, dir)
	}
	for i := len(parents) - 1; i >= 0; i-- {
		file := filepath.Join(parents[i], gitIgnoreFile)
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		rel, err := filepath.Rel(parents[i], w.dir)
		if err != nil {
			continue
		}
		displayName := strings.Repeat("../", i+1) + gitIgnoreFile
		if info.Size() > maxIgnoreBytes {
			return fmt.Errorf("%s has more than %d bytes: shorten it", displayName, maxIgnoreBytes)
		}
		text, err := os.ReadFile(file) //nolint:gosec // G304: an ignore file of the project's repository
		if err != nil {
			return fmt.Errorf("read %s: %w", displayName, withoutPath(err))
		}
		r, err := parseRules("", filepath.ToSlash(rel), displayName, text)
		if err != nil {
			return err
		}
		w.rules = append(w.rules, r)
	}
	return nil
}

// readFolderRules reads the ignore file of a folder, and reports whether the folder has one.
func (w *walk) readFolderRules(folder string) (bool, error) {
	name := path.Join(folder, w.ignoreFile)
	// git reads no .gitignore that is a symbolic link.
	info, err := w.root.Lstat(name)
	if err == nil && w.ignoreFile == ownIgnoreFile {
		info, err = w.root.Stat(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", name, withoutPath(err))
	case !info.Mode().IsRegular():
		return false, nil
	case info.Size() > maxIgnoreBytes:
		return false, fmt.Errorf("%s has more than %d bytes: shorten it", name, maxIgnoreBytes)
	}
	text, err := w.root.ReadFile(name)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, withoutPath(err))
	}
	r, err := parseRules(folder, "", name, text)
	if err != nil {
		return false, err
	}
	w.rules = append(w.rules, r)
	return true, nil
}
