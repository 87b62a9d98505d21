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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// Restriction is a statement that limits a function's role to key prefixes of the table:
// the role allows these actions only on items whose partition key has one of the prefixes.
type Restriction struct {
	Actions  []string
	Prefixes []store.KeyPrefix
}

// Restrictions contains the restrictions of functions, by the function's
// name. The role of a function without an entry is not restricted.
type Restrictions map[string][]Restriction

// UsedPrefixes contains the key prefixes of the table that functions have used, by function and action.
type UsedPrefixes map[string]map[string]map[store.KeyPrefix]bool

// ReadRestrictions reads the restrictions of the roles from a folder of templates that the CDK has synthesized.
func ReadRestrictions(synthesized fs.FS) (Restrictions, error) {
	out := make(Restrictions)
	return out, eachPolicy(synthesized, func(function string, d document, p policyProperties) error {
		for _, s := range p.PolicyDocument.Statement {
			if s.Condition == nil || isRootKeyCondition(s.Condition, toList(s.Action)) {
				continue
			}
			prefixes, err := parseLeadingKeys(s.Condition)
			if err != nil {
				return err
			}
			restriction := Restriction{Prefixes: prefixes}
			for _, action := range toList(s.Action) {
				restriction.Actions = append(restriction.Actions, fmt.Sprint(action))
			}
			out[function] = append(out[function], restriction)
		}
		return nil
	})
}

var errUnsupportedCondition = errors.New("a statement has a condition that is no list of spaces: teach package " +
	"grants what it means")

// isRootKeyCondition reports whether a condition requires the encryption context of the root
// key, and all actions are actions of KMS. Each of our calls to KMS has this encryption context.
func isRootKeyCondition(condition any, actions []any) bool {
	want := map[string]any{}
	for name, value := range rootkey.EncryptionContext() {
		want["kms:EncryptionContext:"+name] = value
	}
	return reflect.DeepEqual(condition, map[string]any{"StringEquals": want}) &&
		!slices.ContainsFunc(actions, func(action any) bool { return !strings.HasPrefix(fmt.Sprint(action), "kms:") })
}

// parseLeadingKeys returns the key prefixes of a condition on dynamodb:LeadingKeys, which lists two patterns for each
// key prefix. It returns errUnsupportedCondition for any other condition.
func parseLeadingKeys(condition any) ([]store.KeyPrefix, error) {
	operators, _ := condition.(map[string]any)
	keys, _ := operators["ForAllValues:StringLike"].(map[string]any)
	if len(operators) != 1 || len(keys) != 1 {
		return nil, errUnsupportedCondition
	}
	var patterns []string
	for _, p := range toList(keys["dynamodb:LeadingKeys"]) {
		text, ok := p.(string)
		if !ok {
			return nil, errUnsupportedCondition
		}
		patterns = append(patterns, text)
	}
	var out []store.KeyPrefix
	for i := 0; i < len(patterns); i += 2 {
		prefix := store.KeyPrefixOf(patterns[i])
		if prefix == "" || strings.ContainsAny(string(prefix), "*?$") ||
			!slices.Equal(patterns[i:min(i+2, len(patterns))], prefix.LeadingKeyPatterns()) {
			return nil, errUnsupportedCondition
		}
		out = append(out, prefix)
	}
	return out, nil
}

// ReadUsedPrefixes reads the used key prefixes from the recorded requests of functions. It ignores requests to an
// index.
func ReadUsedPrefixes(record io.Reader) (UsedPrefixes, error) {
	out := make(UsedPrefixes)
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
			out[u.Function] = make(map[string]map[store.KeyPrefix]bool)
		}
		if out[u.Function][u.Action] == nil {
			out[u.Function][u.Action] = make(map[store.KeyPrefix]bool)
		}
		out[u.Function][u.Action][u.KeyPrefix] = true
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the record of uses: %w", err)
	}
	return out, nil
}

// RarePrefix is a key prefix that a function's role must allow although a test suite cannot use it on demand.
type RarePrefix struct {
	Function string
	// Action is an action of the role's statement that allows KeyPrefix.
	Action    string
	KeyPrefix store.KeyPrefix
	Reason    string
}

// ComparePrefixes returns an error with a line for each key prefix that a function has used without permission, for
// each key prefix of a statement that the function has used with none of the statement's actions and that is not in
// rare, and for each entry of rare that the role does not allow. It returns nil if there are none.
func ComparePrefixes(restrictions Restrictions, used UsedPrefixes, rare ...RarePrefix) error {
	var errs []error
	for _, function := range slices.Sorted(maps.Keys(restrictions)) {
		errs = append(errs, missingPrefixes(restrictions[function], used[function], function),
			unusedPrefixes(restrictions[function], used[function], function, rare))
	}
	for _, r := range rare {
		if !slices.ContainsFunc(restrictions[r.Function], func(restriction Restriction) bool {
			return slices.Contains(restriction.Actions, r.Action) && slices.Contains(restriction.Prefixes, r.KeyPrefix)
		}) {
			errs = append(errs, fmt.Errorf("%s is said to need %s of %s (%s), and may not do it", r.Function, r.Action,
				r.KeyPrefix, r.Reason))
		}
	}
	return errors.Join(errs...)
}

// MissingPrefixes returns an error with every key prefix that a function has
// used without permission. It is for suites that do not use all permissions.
func MissingPrefixes(restrictions Restrictions, used UsedPrefixes) error {
	var errs []error
	for _, function := range slices.Sorted(maps.Keys(restrictions)) {
		errs = append(errs, missingPrefixes(restrictions[function], used[function], function))
	}
	return errors.Join(errs...)
}

// missingPrefixes returns an error with a line for each key prefix that the function has used without permission.
func missingPrefixes(
	restrictions []Restriction, usedPrefixes map[string]map[store.KeyPrefix]bool, function string,
) error {
	var errs []error
	for _, action := range slices.Sorted(maps.Keys(usedPrefixes)) {
		for _, prefix := range slices.Sorted(maps.Keys(usedPrefixes[action])) {
			if !slices.ContainsFunc(restrictions, func(restriction Restriction) bool {
				return slices.Contains(restriction.Actions, action) && slices.Contains(restriction.Prefixes, prefix)
			}) {
				errs = append(errs, fmt.Errorf("%s asks for %s of the space %q, which its role does not allow: add it to Keys",
					function, action, prefix))
			}
		}
	}
	return errors.Join(errs...)
}

// unusedPrefixes returns an error with a line for each key prefix of a statement if the function has used it with none
// of the statement's actions, and if it is not in rare.
func unusedPrefixes(
	restrictions []Restriction, usedPrefixes map[string]map[store.KeyPrefix]bool, function string, rare []RarePrefix,
) error {
	var errs []error
	for _, restriction := range restrictions {
		for _, prefix := range restriction.Prefixes {
			used := slices.ContainsFunc(restriction.Actions, func(action string) bool { return usedPrefixes[action][prefix] })
			excused := slices.ContainsFunc(rare, func(r RarePrefix) bool {
				return r.Function == function && r.KeyPrefix == prefix && slices.Contains(restriction.Actions, r.Action)
			})
			if !used && !excused {
				errs = append(errs, fmt.Errorf("%s may do %s of the space %q, and never does: take it out of Keys", function,
					strings.Join(restriction.Actions, ", "), prefix))
			}
		}
	}
	return errors.Join(errs...)
}
