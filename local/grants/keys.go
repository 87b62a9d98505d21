package grants

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// Fence is a statement that holds a function's role to spaces of the table: it may do these
// actions to items whose partition is of one of them.
type Fence struct {
	Actions []string
	Spaces  []store.Space
}

// Fences are those of functions, by name. One without any is held to none.
type Fences map[string][]Fence

// Reached is what functions asked of the table: the spaces of each action, by function.
type Reached map[string]map[string]map[store.Space]bool

// Fenced reads the fences of the roles in the templates that the CDK has synthesised into a folder.
func Fenced(synthesised fs.FS) (Fences, error) {
	out := make(Fences)
	return out, eachPolicy(synthesised, func(function string, d document, p policyProperties) error {
		for _, s := range p.PolicyDocument.Statement {
			if s.Condition == nil || ofTheRootKey(s.Condition, list(s.Action)) {
				continue
			}
			spaces, err := leading(s.Condition)
			if err != nil {
				return err
			}
			f := Fence{Spaces: spaces}
			for _, action := range list(s.Action) {
				f.Actions = append(f.Actions, fmt.Sprint(action))
			}
			out[function] = append(out[function], f)
		}
		return nil
	})
}

var errCondition = errors.New("a statement has a condition that is no list of spaces: teach package grants what it means")

// ofTheRootKey reports whether a condition allows actions of KMS for the root key alone. Each of our calls to KMS has this encryption context.
func ofTheRootKey(condition any, actions []any) bool {
	want := map[string]any{}
	for name, value := range rootkey.Purpose() {
		want["kms:EncryptionContext:"+name] = value
	}
	return reflect.DeepEqual(condition, map[string]any{"StringEquals": want}) &&
		!slices.ContainsFunc(actions, func(action any) bool { return !strings.HasPrefix(fmt.Sprint(action), "kms:") })
}

// leading reads the other condition that the infrastructure writes: of the patterns of a space, both.
func leading(condition any) ([]store.Space, error) {
	operators, _ := condition.(map[string]any)
	keys, _ := operators["ForAllValues:StringLike"].(map[string]any)
	if len(operators) != 1 || len(keys) != 1 {
		return nil, errCondition
	}
	var patterns []string
	for _, p := range list(keys["dynamodb:LeadingKeys"]) {
		text, ok := p.(string)
		if !ok {
			return nil, errCondition
		}
		patterns = append(patterns, text)
	}
	var out []store.Space
	for i := 0; i < len(patterns); i += 2 {
		space := store.SpaceOf(patterns[i])
		if space == "" || strings.ContainsAny(string(space), "*?$") || !slices.Equal(patterns[i:min(i+2, len(patterns))], space.Leading()) {
			return nil, errCondition
		}
		out = append(out, space)
	}
	return out, nil
}

// Reaches reads, of the record of what functions asked for, the spaces of the table.
func Reaches(record io.Reader) (Reached, error) {
	out := make(Reached)
	lines := bufio.NewScanner(record)
	for lines.Scan() {
		var u cloud.Use
		if err := json.Unmarshal(lines.Bytes(), &u); err != nil {
			return nil, fmt.Errorf("decode a use: %w", err)
		}
		if !strings.HasPrefix(u.Action, "dynamodb:") || strings.Contains(u.Resource, "/index/") {
			continue
		}
		if out[u.Function] == nil {
			out[u.Function] = make(map[string]map[store.Space]bool)
		}
		if out[u.Function][u.Action] == nil {
			out[u.Function][u.Action] = make(map[store.Space]bool)
		}
		out[u.Function][u.Action][u.Space] = true
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the record of uses: %w", err)
	}
	return out, nil
}

// RareSpace is a space that a function's role has to allow although no suite brings its use about at will.
type RareSpace struct {
	Function string
	// Action is one of the statement's.
	Action string
	Space  store.Space
	Why    string
}

// CompareSpaces names every space that a function reached and its role does not allow, every one that its role allows and
// it never reached, other than the rare ones, and every rare one that is not allowed. It is nil when there is none.
func CompareSpaces(fences Fences, reached Reached, rare ...RareSpace) error {
	var wrong []error
	for _, function := range slices.Sorted(maps.Keys(fences)) {
		wrong = append(wrong, missingSpaces(fences[function], reached[function], function), unusedSpaces(fences[function], reached[function], function, rare))
	}
	for _, r := range rare {
		if !slices.ContainsFunc(fences[r.Function], func(f Fence) bool {
			return slices.Contains(f.Actions, r.Action) && slices.Contains(f.Spaces, r.Space)
		}) {
			wrong = append(wrong, fmt.Errorf("%s is said to need %s of %s (%s), and may not do it", r.Function, r.Action, r.Space, r.Why))
		}
	}
	return errors.Join(wrong...)
}

// MissingSpaces is the first half of CompareSpaces, for a suite that does not do everything.
func MissingSpaces(fences Fences, reached Reached) error {
	var wrong []error
	for _, function := range slices.Sorted(maps.Keys(fences)) {
		wrong = append(wrong, missingSpaces(fences[function], reached[function], function))
	}
	return errors.Join(wrong...)
}

func missingSpaces(fences []Fence, reached map[string]map[store.Space]bool, function string) error {
	var wrong []error
	for _, action := range slices.Sorted(maps.Keys(reached)) {
		for _, space := range slices.Sorted(maps.Keys(reached[action])) {
			if !slices.ContainsFunc(fences, func(f Fence) bool { return slices.Contains(f.Actions, action) && slices.Contains(f.Spaces, space) }) {
				wrong = append(wrong, fmt.Errorf("%s asks for %s of the space %q, which its role does not allow: add it to Keys", function, action, space))
			}
		}
	}
	return errors.Join(wrong...)
}

func unusedSpaces(fences []Fence, reached map[string]map[store.Space]bool, function string, rare []RareSpace) error {
	var wrong []error
	for _, f := range fences {
		for _, space := range f.Spaces {
			used := slices.ContainsFunc(f.Actions, func(action string) bool { return reached[action][space] })
			excused := slices.ContainsFunc(rare, func(r RareSpace) bool {
				return r.Function == function && r.Space == space && slices.Contains(f.Actions, r.Action)
			})
			if !used && !excused {
				wrong = append(wrong, fmt.Errorf("%s may do %s of the space %q, and never does: take it out of Keys", function, strings.Join(f.Actions, ", "), space))
			}
		}
	}
	return errors.Join(wrong...)
}
