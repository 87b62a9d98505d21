package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stage is the step of a check that has a refusal.
type Stage string

// The stages, in their order.
const (
	// StageInit is for a description that init refuses.
	StageInit Stage = "init"
	// StageBuild is for a project that the build refuses.
	StageBuild Stage = "build"
	// StageSample is for an operation for which package samples finds no valid request or arguments.
	StageSample Stage = "sample"
	// StageRequest is for a valid request that is refused.
	StageRequest Stage = "request"
	// StageRoute is for a request that reached the upstream, but not as the route requires.
	StageRoute Stage = "route"
	// StageOffer is for an operation that cannot be offered as a tool.
	StageOffer Stage = "offer"
	// StageTool is for a tool whose call fails.
	StageTool Stage = "tool"
)

func stages() []Stage {
	return []Stage{StageInit, StageBuild, StageSample, StageRequest, StageRoute, StageOffer, StageTool}
}

// Refusal is a reason for which parts of a description are refused.
type Refusal struct {
	// File is the name of the description.
	File  string
	Stage Stage
	// Count is the number of operations or problems with this reason.
	Count int
	// Reason is the message without the names and numbers of the description.
	Reason string
	// Example is the first operation or place with this reason. It is not in the list.
	Example string
	// Message is the message with names and numbers of the example. It is not in the list.
	Message string
}

// String returns the refusal as a line of the list.
func (r Refusal) String() string {
	return fmt.Sprintf("%s\t%s\t%d\t%s", r.File, r.Stage, r.Count, r.Reason)
}

type refusalKey struct {
	stage  Stage
	reason string
}

// refusals are the refusals of one description.
type refusals map[refusalKey]*Refusal

// add records a refusal.
func (r refusals) add(stage Stage, message, example string) {
	key := refusalKey{stage, generalize(message)}
	if r[key] == nil {
		r[key] = &Refusal{Stage: stage, Reason: key.reason, Example: example, Message: message}
	}
	r[key].Count++
}

// sorted returns the refusals of a description in their order.
func (r refusals) sorted(file string) []Refusal {
	var out []Refusal
	for _, refusal := range r {
		refusal.File = file
		out = append(out, *refusal)
	}
	slices.SortFunc(out, compare)
	return out
}

func compare(a, b Refusal) int {
	return cmp.Or(cmp.Compare(a.File, b.File),
		cmp.Compare(slices.Index(stages(), a.Stage), slices.Index(stages(), b.Stage)), cmp.Compare(a.Reason, b.Reason))
}

var (
	quoted     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	references = regexp.MustCompile(`(?:#|/)[^\s:,]*/[^\s:,]*`)
	numbers    = regexp.MustCompile(`[0-9][0-9,.]*[0-9]|[0-9]+`)
)

// maxReason is the maximum length of a reason in the list, in bytes.
const maxReason = 200

// generalize removes the names and numbers of a description from a message, so that messages with the same cause are
// equal.
func generalize(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	message = quoted.ReplaceAllString(message, `"…"`)
	message = references.ReplaceAllString(message, "…")
	message = numbers.ReplaceAllStringFunc(message, func(number string) string {
		if len(number) == 3 && strings.HasPrefix(message, number) {
			return number // the status of a response
		}
		return "N"
	})
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > maxReason {
		message = strings.ToValidUTF8(message[:maxReason], "") + "…"
	}
	return message
}

// FormatRefusals returns the list of refusals as a text.
func FormatRefusals(all []Refusal) []byte {
	var b bytes.Buffer
	b.WriteString("# What the product refuses of public OpenAPI descriptions: the file, the stage, the number of " +
		"operations\n# or problems, and the reason. `make corpus UPDATE=1` removes what is no longer refused.\n")
	for _, r := range all {
		b.WriteString(r.String() + "\n")
	}
	return b.Bytes()
}

// ParseRefusals reads a list that FormatRefusals wrote.
func ParseRefusals(text []byte) (all []Refusal, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.SplitN(line, "\t", 4)
		if len(fields) < 4 {
			return nil, fmt.Errorf("line %d of the list of refusals has %d fields, want 4", number, len(fields))
		}
		count, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("line %d of the list of refusals: %w", number, err)
		}
		all = append(all, Refusal{File: fields[0], Stage: Stage(fields[1]), Count: count, Reason: fields[3]})
	}
	return all, lines.Err()
}

// Difference is a refusal whose count differs from the count in the list.
type Difference struct {
	Refusal

	// Listed is the number in the list. Count is the number now. Each is 0 if there is no such refusal.
	Listed int
}

// Compare compares refusals with the list, for the files that were checked. It returns the refusals that are new or more
// frequent than in the list, and those that are missing or less frequent.
func Compare(listed, now []Refusal, checked map[string]bool) (more, fewer []Difference) {
	type key struct {
		file   string
		stage  Stage
		reason string
	}
	all := map[key]*Difference{}
	for _, r := range listed {
		if checked[r.File] {
			all[key{r.File, r.Stage, r.Reason}] = &Difference{Refusal{File: r.File, Stage: r.Stage, Reason: r.Reason}, r.Count}
		}
	}
	for _, r := range now {
		k := key{r.File, r.Stage, r.Reason}
		if all[k] == nil {
			all[k] = &Difference{}
		}
		all[k].Refusal = r
	}
	differences := slices.SortedFunc(maps.Values(all), func(a, b *Difference) int { return compare(a.Refusal, b.Refusal) })
	for _, d := range differences {
		switch {
		case d.Count > d.Listed:
			more = append(more, *d)
		case d.Count < d.Listed:
			fewer = append(fewer, *d)
		}
	}
	return more, fewer
}
