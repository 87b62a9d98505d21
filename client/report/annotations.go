package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/output"
)

// harmless has no line of a text be a command of GitHub's runner, which it takes at the beginning of a line (::) and, in
// an older form, anywhere (##[).
func harmless(text string) string {
	text = strings.ReplaceAll(text, "##[", `##\[`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			lines[i] = `\` + line
		}
	}
	return strings.Join(lines, "\n")
}

// The escapes of GitHub's workflow commands, of what is told and of its properties.
var (
	commandText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// Annotations writes the problems as GitHub's runner takes them from a step's output, which shows each at its place.
func (r Report) Annotations(to io.Writer) error {
	var b strings.Builder
	for i, f := range r.all() {
		if i == MostShown {
			break
		}
		var properties []string
		set := func(name, value string) {
			properties = append(properties, name+"="+commandProperty.Replace(output.Printable(value)))
		}
		if f.File != "" {
			set("file", r.path(f.File))
		}
		if f.Line > 0 {
			set("line", fmt.Sprint(f.Line))
			set("col", fmt.Sprint(f.Column))
		}
		set("title", "gatewright: "+describe(f).name)
		message := output.Printable(f.Message)
		if f.Path != "" {
			message += " (" + output.Printable(f.Path) + ")"
		}
		fmt.Fprintf(&b, "::%s %s::%s\n", f.level(), strings.Join(properties, ","), commandText.Replace(message))
	}
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("write the annotations: %w", err)
	}
	return nil
}

// Section writes what write does as a section of a job's log in GitLab, which a reader can fold.
func Section(to io.Writer, name, title string, now func() time.Time, write func() error) error {
	const sequence = "\x1b[0Ksection_%s:%d:%s\r\x1b[0K%s\n"
	if _, err := fmt.Fprintf(to, sequence, "start", now().Unix(), name, title); err != nil {
		return fmt.Errorf("begin a section: %w", err)
	}
	err := write()
	if _, wrong := fmt.Fprintf(to, sequence, "end", now().Unix(), name, ""); err == nil && wrong != nil {
		err = fmt.Errorf("end a section: %w", wrong)
	}
	return err
}

// path is that of a file from the repository's top.
func (r Report) path(file string) string { return path.Join(r.Folder, file) }

// quality is an entry of GitLab's code quality report.
type quality struct {
	Description string `json:"description"`
	CheckName   string `json:"check_name"`
	Fingerprint string `json:"fingerprint"`
	Severity    string `json:"severity"`
	Location    struct {
		Path  string `json:"path"`
		Lines struct {
			Begin int `json:"begin"`
		} `json:"lines"`
	} `json:"location"`
}

// CodeQuality is the report as GitLab takes it for a merge request.
func (r Report) CodeQuality() ([]byte, error) {
	out := make([]quality, 0, len(r.Errors)+len(r.Warnings))
	for _, f := range r.all() {
		q := quality{Description: f.Message, CheckName: describe(f).id, Fingerprint: fingerprint(r, f), Severity: "minor"}
		if f.isError {
			q.Severity = "critical"
		}
		q.Location.Path = r.path(f.File)
		if f.File == "" {
			q.Location.Path = path.Join(r.Folder, "config") // GitLab takes no entry without
		}
		q.Location.Lines.Begin = max(1, f.Line)
		out = append(out, q)
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

// fingerprint is the same for a problem wherever its lines have moved to.
func fingerprint(r Report, f found) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.path(f.File), f.Path, f.level(), f.Message}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// rule is what a problem is of.
type rule struct{ id, name string }

var (
	ofRoutes   = rule{"routes", "routes"}
	ofPolicies = rule{"policies", "policies"}
	ofSettings = rule{"settings", "settings"}
	ofFolder   = rule{"project", "the project's folder"}
)

// describe says what a problem is of: what a build says has no finer names.
func describe(f found) rule {
	switch {
	case strings.HasPrefix(f.File, "config/") && strings.HasSuffix(f.File, ".oas.json"):
		return ofRoutes
	case f.File == "config/policies.json":
		return ofPolicies
	case f.File == "gatewright.jsonc":
		return ofSettings
	}
	return ofFolder
}
