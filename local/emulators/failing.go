package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// refused is what AWS cannot make of a version that fails, by its logical id: it waits for a signal that nobody sends.
const refused = "NobodySignals"

// breakVersion makes a version that cannot be deployed of this one: what it has besides is made when all else is, so that
// functions are released and called for some seconds, and fails then.
func (s *suite) breakVersion(context.Context) error {
	from, to := filepath.Join(s.dir, thisVersion), filepath.Join(s.dir, failing)
	texts, err := broken(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return fmt.Errorf("make a folder for it: %w", err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("read what was synthesised: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(to, e.Name())
		if text, other := texts[e.Name()]; other {
			err = os.WriteFile(path, []byte(text), 0o600)
		} else { // functions are the same
			err = os.Symlink(filepath.Join(from, e.Name()), path)
		}
		if err != nil {
			return fmt.Errorf("write it: %w", err)
		}
	}
	return nil
}

// broken are the files of a synthesised version that are others of one that fails: its template, and what says under which name
// that is uploaded, which the CDK does once for each name.
func broken(from string) (map[string]string, error) {
	const template, uploads, manifest = "gatewright-" + stage + ".template.json", "gatewright-" + stage + ".assets.json", "manifest.json"
	texts := map[string]string{}
	for _, name := range []string{template, uploads, manifest} {
		raw, err := os.ReadFile(filepath.Join(from, name)) //nolint:gosec // G304: our own file
		if err != nil {
			return nil, fmt.Errorf("read what was synthesised: %w", err)
		}
		texts[name] = string(raw)
	}
	of := map[string]any{}
	if err := json.Unmarshal([]byte(texts[template]), &of); err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	resources, ok := of["Resources"].(map[string]any)
	if !ok {
		return nil, errors.New("the template has no resources")
	}
	all := slices.Sorted(maps.Keys(resources))
	resources["Nobody"] = map[string]any{"Type": "AWS::CloudFormation::WaitConditionHandle"}
	resources[refused] = map[string]any{
		"Type": "AWS::CloudFormation::WaitCondition", "DependsOn": all,
		"Properties": map[string]any{"Handle": map[string]any{"Ref": "Nobody"}, "Timeout": "3"},
	}
	written, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("write the template: %w", err)
	}
	texts[template] = string(written)
	name := regexp.MustCompile(`"([0-9a-f]{64})": \{\s*"displayName": "gatewright-` + stage + ` Template"`).FindStringSubmatch(texts[uploads])
	if name == nil {
		return nil, errors.New("the CDK no longer says under which name the template is uploaded: failing.go has to read it otherwise")
	}
	sum := sha256.Sum256([]byte(texts[template]))
	for _, file := range []string{uploads, manifest} {
		texts[file] = strings.ReplaceAll(texts[file], name[1], hex.EncodeToString(sum[:]))
	}
	return texts, nil
}
