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

// Ignore files are read as git reads them, by the library whose patterns are most like git's own: of 28,024 paths in
// random trees under random patterns, go-git's answers 1,100 unlike `git check-ignore`, and git-pkgs' 115: it takes
// every pattern to match all that is below what it matches, so that "!vendor" brings back what another line ignores in
// vendor, and "build/**" to match build itself, so that "!build/keep" brings nothing back. A pattern is given to it so
// that it matches one path and no path below (exact), and then all answers are git's.
//
// Asking git itself would need git on every machine, and answer by the settings of who asks: core.excludesFile and
// .git/info/exclude are not read here, and whether a file is tracked does not count. Three things are unlike git: a class of
// characters with a "/" in it ("[a/b]") matches nothing; so does a range that ends before it begins ("[b-a]"), which git has match its beginning;
// and "**" behind other characters ("a**/b") is a star, as git's documentation has it, where git has it match folders.
const (
	ownIgnoreFile = ".gatewrightignore"
	gitIgnoreFile = ".gitignore"

	maxIgnoreBytes = 1 << 20
	maxIgnoreLine  = 4 << 10
)

// end is what a path has behind it while it is matched, and no path has within: its last segment tells whether it is a
// folder.
const end = "\x00"

// rules are an ignore file's.
type rules struct {
	// base is the folder that its patterns are relative to: from the project's folder if that is above, else below.
	base string
	// above is the way from base to the project's folder, "" for rules of the project itself.
	above string
	// shown is what messages call the file.
	shown   string
	matcher *gitignore.Matcher
}

func parseRules(base, above, shown string, text []byte) (rules, error) {
	r := rules{base: base, above: above, shown: shown, matcher: gitignore.New("")}
	lines := bytes.Split(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("\n"))
	for i, line := range lines {
		if len(line) > maxIgnoreLine {
			return rules{}, fmt.Errorf("line %d of %s has more than %d bytes, which no pattern needs: shorten it", i+1, shown, maxIgnoreLine)
		}
		lines[i] = []byte(exact(string(line)))
	}
	r.matcher.AddPatterns(bytes.Join(lines, []byte("\n")), "")
	return r, nil
}

// exact is a line of an ignore file as the library gets it, "" for one without a pattern: every pattern is one from the
// file's folder on, and leads to the end of a path.
func exact(line string) string {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if strings.HasPrefix(line, "#") {
		return ""
	}
	pattern, negated := strings.CutPrefix(line, "!")
	pattern, foldersOnly := strings.CutSuffix(pattern, "/")
	if pattern == "" || endsEscaped(pattern) || strings.HasPrefix(pattern, `\/`) { // no path begins with a slash
		return ""
	}
	pattern = stars(slashes(pattern))
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	if strings.HasSuffix(pattern, "/**") && pattern != "**/**" {
		pattern += "/*" // all that is in the folder, and not the folder
	}
	out := "/" + strings.TrimPrefix(pattern, "/") + "/"
	if negated {
		out = "!" + out
	}
	if foldersOnly {
		return out + "d" + end
	}
	return out + "[df]" + end
}

// stars has a segment of more than two stars be "**", as which git takes it, and the library as one star.
func stars(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		if len(segment) > len("**") && strings.Trim(segment, "*") == "" {
			segments[i] = "**"
		}
	}
	return strings.Join(segments, "/")
}

// slashes takes the backslashes off escaped slashes, which git takes for slashes, and the library for a part of what is before them. In
// front of one "**" is a folder at least.
func slashes(pattern string) string {
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

// trimSpaces takes spaces off the end of a line, but for one that is escaped.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !endsEscaped(strings.TrimSuffix(line, " ")) {
		line = strings.TrimSuffix(line, " ")
	}
	return line
}

// endsEscaped reports whether what follows text is escaped by its last character.
func endsEscaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// verdict is what an ignore file says of a path, by its last line that matches.
func (r rules) verdict(name string, folder bool) (ignored, told bool, why string) {
	if r.above != "" {
		name = r.above + "/" + name
	} else if r.base != "" {
		name = strings.TrimPrefix(name, r.base+"/")
	}
	kind := "f"
	if folder {
		kind = "d"
	}
	m := r.matcher.MatchDetail(name + "/" + kind + end)
	return m.Ignored, m.Matched, fmt.Sprintf("%s:%d", r.shown, m.Line)
}

// ignored reports whether the ignore files leave a path out, and which line does.
func (w *walk) ignored(name string, folder bool) (why string, ignored bool) {
	for i := len(w.rules) - 1; i >= 0; i-- {
		if ignored, told, why := w.rules[i].verdict(name, folder); told {
			return why, ignored
		}
	}
	return "", false
}

// readRules reads what holds for all of the project, and says by what name further ignore files are called: the
// project's own ones where it has one, else git's, those of the folders above it in its repository included. Without
// either, node_modules is left out.
func (w *walk) readRules() error {
	w.ignoreFile = gitIgnoreFile
	if _, err := w.root.Stat(ownIgnoreFile); err == nil {
		w.ignoreFile = ownIgnoreFile
		return nil
	}
	if err := w.readRulesAbove(); err != nil {
		return err
	}
	if _, err := w.root.Lstat(gitIgnoreFile); err == nil || len(w.rules) > 0 {
		return nil
	}
	r, err := parseRules("", "", "no ignore file", []byte("node_modules"))
	w.rules = []rules{r}
	return err
}

// readRulesAbove reads the .gitignore files between a repository's top and the project's folder.
func (w *walk) readRulesAbove() error {
	var above []string // from the nearest
	top, ok := repositoryTop(w.dir)
	for dir := w.dir; ok && dir != top; {
		dir = filepath.Dir(dir)
		above = append(above, dir)
	}
	for i := len(above) - 1; i >= 0; i-- {
		file := filepath.Join(above[i], gitIgnoreFile)
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		way, err := filepath.Rel(above[i], w.dir)
		if err != nil {
			continue
		}
		shown := strings.Repeat("../", i+1) + gitIgnoreFile
		if info.Size() > maxIgnoreBytes {
			return fmt.Errorf("%s has more than %d bytes: shorten it", shown, maxIgnoreBytes)
		}
		text, err := os.ReadFile(file) //nolint:gosec // an ignore file of the project's repository
		if err != nil {
			return fmt.Errorf("read %s: %w", shown, reason(err))
		}
		r, err := parseRules("", filepath.ToSlash(way), shown, text)
		if err != nil {
			return err
		}
		w.rules = append(w.rules, r)
	}
	return nil
}

// readRulesOf reads a folder's ignore file, and reports whether it has one.
func (w *walk) readRulesOf(folder string) (bool, error) {
	name := path.Join(folder, w.ignoreFile)
	// git reads no .gitignore through a link.
	info, err := w.root.Lstat(name)
	if err == nil && w.ignoreFile == ownIgnoreFile {
		info, err = w.root.Stat(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", name, reason(err))
	case !info.Mode().IsRegular():
		return false, nil
	case info.Size() > maxIgnoreBytes:
		return false, fmt.Errorf("%s has more than %d bytes: shorten it", name, maxIgnoreBytes)
	}
	text, err := w.root.ReadFile(name)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, reason(err))
	}
	r, err := parseRules(folder, "", name, text)
	if err != nil {
		return false, err
	}
	w.rules = append(w.rules, r)
	return true, nil
}
