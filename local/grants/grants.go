// Package grants compares what functions asked of AWS with what their roles
// allow. No emulator enforces a role, so this is how it is known, before AWS
// says so, that nothing is missing; and that nothing is granted that no test
// ever needs.
//
// What it is not: a simulator of IAM. It knows the kinds of statement that the
// infrastructure writes (allow, actions by name, resources with at most a star
// at their end) and refuses all others.
//
// Read grants.go first, then template.go for the roles. What functions ask is
// recorded by package cloud (docs/decisions/0018-grants-are-compared-with-use.md).
package grants

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/cloud"
)

// Grant is an action on a resource: table, table/index/NAME, key, bucket,
// bucket/KEY. In what a role allows, a KEY may end in a star.
type Grant struct{ Action, Resource string }

func (g Grant) String() string { return g.Action + " on " + g.Resource }

// covers reports whether g allows another grant.
func (g Grant) covers(other Grant) bool {
	prefix, star := strings.CutSuffix(g.Resource, "*")
	return g.Action == other.Action && (g.Resource == other.Resource || star && strings.HasPrefix(other.Resource, prefix))
}

// Functions are the grants of functions, by name.
type Functions map[string]map[Grant]bool

func (f Functions) add(function string, g Grant) {
	if f[function] == nil {
		f[function] = make(map[Grant]bool)
	}
	f[function][g] = true
}

// Len counts the grants of all functions.
func (f Functions) Len() int {
	n := 0
	for _, set := range f {
		n += len(set)
	}
	return n
}

// platform are actions that AWS itself does under a function's role, each with
// what for. No function asks for them.
func platform(action string) (why string, ok bool) {
	switch action {
	case "logs:CreateLogStream", "logs:PutLogEvents":
		return "Lambda writes the function's log", true
	case "xray:PutTelemetryRecords", "xray:PutTraceSegments":
		return "Lambda sends its traces", true
	case "dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams":
		return "the event source mapping reads the stream", true
	case "sqs:SendMessage":
		return "the event source mapping sends what failed for good", true
	}
	return "", false
}

// Rare is a grant that is needed although no suite can bring its use about at
// will.
type Rare struct {
	Function string
	Grant    Grant
	// Why says when it is needed.
	Why string
}

// byChance are actions that one function does for all, whichever comes first.
func byChance(action string) bool { return action == "kms:GenerateDataKeyWithoutPlaintext" }

// Used reads the record of what functions asked for. table and bucket are the
// installation's own: a request to another one is an error.
func Used(record io.Reader, table, bucket string) (Functions, error) {
	out := make(Functions)
	lines := bufio.NewScanner(record)
	for lines.Scan() {
		var u cloud.Use
		if err := json.Unmarshal(lines.Bytes(), &u); err != nil {
			return nil, fmt.Errorf("decode a use: %w", err)
		}
		resource, err := place(u, table, bucket)
		if err != nil {
			return nil, err
		}
		out.add(u.Function, Grant{u.Action, resource})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the record of uses: %w", err)
	}
	return out, nil
}

// place names the resource of a use as a template's are named.
func place(u cloud.Use, table, bucket string) (string, error) {
	if rest, ok := strings.CutPrefix(u.Resource, "table/"+table); ok && strings.HasPrefix(u.Action, "dynamodb:") && (rest == "" || rest[0] == '/') {
		return "table" + rest, nil
	}
	if rest, ok := strings.CutPrefix(u.Resource, bucket); ok && strings.HasPrefix(u.Action, "s3:") && (rest == "" || rest[0] == '/') {
		return "bucket" + rest, nil
	}
	if strings.HasPrefix(u.Action, "kms:") {
		return "key", nil
	}
	return "", fmt.Errorf("%s asks for %s on %s, which is none of the installation's resources", u.Function, u.Action, u.Resource)
}

// Compare is Missing and Unused in one.
func Compare(granted, used Functions, rare ...Rare) error {
	return errors.Join(Missing(granted, used), Unused(granted, used, rare...))
}

// Missing names every use that no role allows; it is nil when there is none.
func Missing(granted, used Functions) error {
	var wrong []error
	for _, function := range slices.Sorted(maps.Keys(used)) {
		for _, u := range sorted(used[function]) {
			if !slices.ContainsFunc(sorted(granted[function]), func(g Grant) bool { return g.covers(u) }) {
				wrong = append(wrong, fmt.Errorf("%s asks for %s, which its role does not allow", function, u))
			}
		}
	}
	return errors.Join(wrong...)
}

// Unused names every grant that no function used, other than the rare ones,
// and every rare one that is not granted. It is nil when there is none.
func Unused(granted, used Functions, rare ...Rare) error {
	var wrong []error
	for _, function := range slices.Sorted(maps.Keys(granted)) {
		for _, g := range sorted(granted[function]) {
			if _, ok := platform(g.Action); ok || slices.ContainsFunc(rare, func(r Rare) bool { return r.Function == function && r.Grant == g }) {
				continue
			}
			users := []map[Grant]bool{used[function]}
			if byChance(g.Action) {
				users = slices.Collect(maps.Values(used))
			}
			if !slices.ContainsFunc(users, func(set map[Grant]bool) bool {
				return slices.ContainsFunc(sorted(set), g.covers)
			}) {
				wrong = append(wrong, fmt.Errorf("%s may do %s, and never does", function, g))
			}
		}
	}
	for _, r := range rare {
		if !granted[r.Function][r.Grant] {
			wrong = append(wrong, fmt.Errorf("%s is said to need %s (%s), and may not do it", r.Function, r.Grant, r.Why))
		}
	}
	return errors.Join(wrong...)
}

func sorted(set map[Grant]bool) []Grant {
	return slices.SortedFunc(maps.Keys(set), func(a, b Grant) int { return strings.Compare(a.String(), b.String()) })
}
