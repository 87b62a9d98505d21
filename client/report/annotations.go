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
	"github.com/gatewright/gatewright/shared/format/project"
)

// escapeWorkflowCommands escapes the lines of a text that GitHub's runner would execute as commands. A command is at
// the beginning of a line (::), or anywhere in an older form (##[).
func escapeWorkflowCommands(text string) string {
	text = strings.ReplaceAll(text, "##[", `##\[`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			lines[i] = `\` + line
		}
	}
	return strings.Join(lines, "\n")
}

// These are the escapes of GitHub's workflow commands, for messages and for properties.
var (
	commandText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// Annotations writes the first MaxShown problems as workflow commands. GitHub's runner reads these commands from a
// step's output and shows each problem at its place.
func (r Report) Annotations(w io.Writer) error {
	var b strings.Builder
	for i, f := range r.all() {
		if i == MaxShown {
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
		set("title", "gatewright: "+r.ruleOf(f).name)
		message := output.Printable(f.Message)
		if f.Path != "" {
			message += " (" + output.Printable(f.Path) + ")"
		}
		fmt.Fprintf(&b, "::%s %s::%s\n", f.level(), strings.Join(properties, ","), commandText.Replace(message))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the annotations: %w", err)
	}
	return nil
}

// Section calls write between the lines that begin and end a section in the log of a GitLab job. Readers can collapse
// the section.
func Section(w io.Writer, name, title string, now func() time.Time, write func() error) error {
	const sequence = "\x1b[0Ksection_%s:%d:%s\r\x1b[0K%s\n"
	if _, err := fmt.Fprintf(w, sequence, "start", now().Unix(), name, title); err != nil {
		return fmt.Errorf("begin a section: %w", err)
	}
	err := write()
	if _, endErr := fmt.Fprintf(w, sequence, "end", now().Unix(), name, ""); err == nil && endErr != nil {
		err = fmt.Errorf("end a section: %w", endErr)
	}
	return err
}

// path returns the path of a file from the top of the repository.
func (r Report) path(file string) string {
	if original, ok := r.Originals[file]; ok {
		return original
	}
	return path.Join(r.Folder, file)
}

// codeQualityIssue is an entry of GitLab's code quality report.
type codeQualityIssue struct {
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

// CodeQuality returns the report that GitLab shows in a merge request.
func (r Report) CodeQuality() ([]byte, error) {
	out := make([]codeQualityIssue, 0, len(r.Errors)+len(r.Warnings))
	for _, f := range r.all() {
		q := codeQualityIssue{
			Description: f.Message, CheckName: r.ruleOf(f).id, Fingerprint: fingerprint(r, f),
			Severity: "minor",
		}
		if f.isError {
			q.Severity = "critical"
		}
		q.Location.Path = r.path(f.File)
		if f.File == "" {
			q.Location.Path = path.Join(r.Folder, "config") // GitLab requires a path
		}
		q.Location.Lines.Begin = max(1, f.Line)
		out = append(out, q)
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

// fingerprint returns a hash of a problem that stays the same when the problem's lines move.
func fingerprint(r Report, f finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.path(f.File), f.Path, f.level(), f.Message}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// rule is the category of a problem. Reports for programs call it a rule or a check.
type rule struct{ id, name string }

var (
	routesRule   = rule{"routes", "routes"}
	policiesRule = rule{"policies", "policies"}
	settingsRule = rule{"settings", "settings"}
	folderRule   = rule{"project", "the project's folder"}
)

// ruleOf returns the category of a problem: the part of the project that has the problem.
func (r Report) ruleOf(f finding) rule {
	_, isOriginal := r.Originals[f.File]
	switch {
	case isOriginal, project.IsRoutesFile(f.File):
		return routesRule
	case f.File == "config/policies.json":
		return policiesRule
	case f.File == "gatewright.jsonc":
		return settingsRule
	}
	return folderRule
}
