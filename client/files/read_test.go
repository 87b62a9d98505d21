package files_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// invalidFiles are contents of a file, with the problems that Read reports and their positions.
var invalidFiles = map[string]struct {
	text string
	want []string
}{
	"unknown list": {"widgets: []", []string{"1:1: widgets is not known at the top of a file. There are: projects,"}},
	"unknown field": {
		"keyBuckets:\n  - name: partners\n    colour: red",
		[]string{"3:5: colour is no field of a key bucket. It has: name, description,"},
	},
	"excluded field": {
		"keyBuckets: [{name: partners, consumers: [{name: a, keys: [{description: d, " + "key: k}]}]}]",
		[]string{"1:77: key is not taken: the text of a key is told once"},
	},
	"object without a name": {"keyBuckets:\n  - description: d", []string{"2:5: This key bucket has no name"}},
	"duplicate name": {
		"keyBuckets:\n  - {name: partners, description: a}\n  - {name: partners, " + "description: b}",
		[]string{"3:12: There are two of the key bucket partners: the other is at account.yaml:2."},
	},
	"duplicate name in two documents": {
		"tunnels: [{name: office}]\n---\ntunnels: [{name: office}]", []string{"3:18: There are two of the tunnel office"},
	},
	"duplicate manager in another case": {
		"keyBuckets: [{name: partners, consumers: [{name: a, managers: [A@example.com, " + "a@EXAMPLE.com]}]}]",
		[]string{"There are two of the manager"},
	},
	"duplicate field": {
		"keyBuckets:\n  - name: partners\n    tags: {a: b,\n      a: c}",
		[]string{"4:7: a stands here twice: the other is in line 3."},
	},
	"values of other types": {
		"keyBuckets:\n  - name: partners\n    description: 7\n    tags: {a: [b]}\n    isRetrievable: yes",
		[]string{
			"3:18: This does not fit: got number, want null or string",
			"4:15: This does not fit: got array, want string", "5:20: This does not fit: got string, want null or boolean",
		},
	},
	"names that are no texts in YAML": {
		"keyBuckets:\n  - name: null\n  - name: 1e3\n  - name: true\n  - name: partners\n    tags: {1: a, true: b}",
		[]string{
			"2:11: name has to be a text", "3:11: name has to be a text", "4:11: name has to be a text",
			"6:12: A name has to be a text: put it in quotes", "6:18: A name has to be a text",
		},
	},
	"numbers that are not decimal": {
		"keyBuckets: [{name: partners, consumers: [{name: a, metadata: {a: 0x10, b: .5, c: 1_000, d: .inf, e: 010}}]}]",
		[]string{
			"1:67: Write this number in decimal", "1:76: Write this", "1:83: Write this", "1:93: Write this",
			"1:102: Write this",
		},
	},
	"secret variable in clear": {
		"projects: [{name: shop, branches: [{name: main, variables: [{name: A, " + "isSecret: true, value: v}]}]}]",
		[]string{"1:94: value of a variable with isSecret: true is a secret, which stands in no file"},
	},
	"private key in clear": {
		"projects: [{name: shop, mtlsCertificates: [{name: a, key: v, certificate: c, " + "environments: []}]}]",
		[]string{"1:59: key is a secret, which stands in no file"},
	},
	"reference outside of the folder": {
		"caCertificates: [{name: a, certificate: {fromFile: ../a.pem}}]", []string{"1:52: ../a.pem leads out of the folder"},
	},
	"reference to two sources": {
		"caCertificates: [{name: a, certificate: {fromFile: a.pem, fromEnv: A}}]",
		[]string{"1:41: A value comes from one place"},
	},
	"reference for a number": {
		"meteringBuckets: [{name: a, plans: [{planExternalId: p, trialDays: " + "{fromEnv: A}}]}]",
		[]string{"1:68: trialDays has to stand here as it is"},
	},
	"object instead of a list": {"keyBuckets: {name: partners}", []string{"1:13: keyBuckets has to be a list"}},
	"complete with invalid lists": {
		"projects:\n  - name: shop\n    complete: [environments, widgets]",
		[]string{"3:16: environments cannot be complete", "3:30: There is no list widgets here"},
	},
	"metering bucket without a plan": {
		"meteringBuckets: [{name: a}]", []string{"A metering bucket is known by its plans alone"},
	},
	"tab as indentation": {"keyBuckets:\n\t- name: a", []string{"2:1: This is no YAML:", "Indent with spaces"}},
	"merge key": {
		"keyBuckets:\n  - &a {name: partners}\n  - {<<: *a, name: others}", []string{"3:6: A merge (<<) is not taken"},
	},
	"recursive alias": {
		"keyBuckets: [{name: partners, tags: &a {a: *a}}]", []string{"Values are within one another 64 times at most"},
	},
	"custom tag": {
		"keyBuckets: [{name: partners, description: !!binary aGk=}]", []string{"!!binary is a type that is not taken here"},
	},
	"invalid UTF-8": {"keyBuckets: [{name: \"\xff\"}]", []string{"This is no YAML:"}},
	"deeply nested lists": {
		"keyBuckets: [{name: partners, consumers: [{name: a, metadata: {a: " +
			strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}}]}]",
		[]string{"Values are within one another 64 times at most"},
	},
}

// TestProblemsHavePositions checks that Read reports the problems of invalid files with their positions.
func TestProblemsHavePositions(t *testing.T) {
	t.Parallel()
	for name, tt := range invalidFiles {
		_, err := files.Read(t.Context(), writeTemp(t, tt.text))
		if exit.CodeOf(err) != exit.Invalid {
			t.Errorf("%s: Read() error = %v, want code %d", name, err, exit.Invalid)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(errorText(err), want) {
				t.Errorf("%s: Read() error =\n%s\nwant %q", name, errorText(err), want)
			}
		}
	}
}

// TestSecretLineIsNotShown checks that InvalidError.Source returns nothing for a problem in a line with a secret, and
// that no message contains the secret.
func TestSecretLineIsNotShown(t *testing.T) {
	t.Parallel()
	_, err := files.Read(t.Context(), writeTemp(t, "projects:\n  - name: shop\n    branches:\n      - name: main\n      "+
		"  variables:\n          - {name: A, isSecret: true, value: hunter2, more: 1}\n          - name: B\n            "+
		"value: 1e3\n            odd: 1\n"))
	invalid, ok := files.AsInvalid(err)
	if !ok {
		t.Fatalf("Read() error = %v, want an *InvalidError", err)
	}
	shown := 0
	for _, p := range invalid.Problems {
		excerpt, ok := invalid.Source(p.File, p.Line, p.Column)
		if ok && (p.Line == 6 || p.Line == 8) {
			t.Errorf("the problem %q shows the line %d, %q, want no line with a secret", p.Message, p.Line, excerpt.Text)
		}
		if ok {
			shown++
		}
		if strings.Contains(p.Message, "hunter2") || strings.Contains(p.Message, "1e3") {
			t.Errorf("problem = %q, want no secret in it", p.Message)
		}
	}
	if shown == 0 {
		t.Errorf("the problems %v show no line, want at least one", invalid.Problems)
	}
}

// TestUnusualFilesAreRead reads line breaks of other systems, aliases, and documents that each have some of a parent's
// children.
func TestUnusualFilesAreRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"byte order mark and CRLF": "\ufeffkeyBuckets:\r\n  - name: partners\r\n    description: \"x\"\r\n",
		"aliases": "keyBuckets:\n  - name: partners\n    tags: &t {team: blue}\n  - name: " +
			"others\n    tags: *t\n",
		"aliases of lists of objects": "keyBuckets:\n  - {name: partners, consumers: &c [{name: a}, {name: " +
			"b}]}\n  - {name: others, consumers: *c}\n",
		"several documents": "keyBuckets: [{name: partners, description: d}]\n---\nkeyBuckets: " +
			"[{name: partners, consumers: [{name: a}]}]\n---\nkeyBuckets: [{name: partners, consumers: [{name: b}]}]\n",
		"only comments": "# nothing\n---\n",
		"times, and names in quotes": "keyBuckets: [{name: partners, tags: " +
			"{\"null\": \"yes\", \"1e3\": \"名\"}, consumers: [{name: a, keys: [{description: d, expiresOn: " +
			"2031-01-01T00:00:00Z}]}]}]",
		"empty field": "keyBuckets: [{name: partners, description: null, tags: }]",
	} {
		if _, err := files.Read(t.Context(), writeTemp(t, text)); err != nil {
			t.Errorf("%s: Read() error = %s, want none", name, errorText(err))
		}
	}
}

// TestIrregularFileIsRefused checks that Read refuses a file that is too large, and links to files outside the folder,
// to a device, to a folder or to themselves. A link to a file in the folder must be read.
func TestIrregularFileIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows, the creation of links needs a privilege")
	}
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(outside, []byte("keyBuckets: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"out.yaml": outside, "endless.yaml": "/dev/zero", "self.yaml": "self.yaml",
		"folder.yaml": ".",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	large, err := os.Create(filepath.Join(dir, "large.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := large.Truncate(1 << 30); err != nil { // a sparse file
		t.Fatal(err)
	}
	_ = large.Close()
	_, err = files.Read(t.Context(), dir)
	invalid, ok := files.AsInvalid(err)
	if !ok || len(invalid.Problems) != 5 {
		t.Fatalf("Read() of a folder with irregular files: error = %v, %s, want 5 problems", err, errorText(err))
	}
	inside := t.TempDir()
	if err := os.WriteFile(filepath.Join(inside, "a.txt"), []byte("keyBuckets: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.txt", filepath.Join(inside, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Read(t.Context(), inside); err != nil {
		t.Errorf("Read() of a link within the folder: error = %v, want none", err)
	}
	if _, err := files.Read(t.Context(), t.TempDir()); exit.CodeOf(err) != exit.Usage {
		t.Errorf("Read() of an empty folder: error = %v, want code %d", err, exit.Usage)
	}
}

// TestImmutableFieldChangeIsRefused checks that Compare reports changes of immutable fields, invalid secrets, and
// objects that cannot be created.
func TestImmutableFieldChangeIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, fullYAML)
	for text, want := range map[string]string{
		"projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: true, value: {fromEnv: " +
			"SHOP_TOKEN}}]}]}]": "1:83: isSecret of the variable URL is false, and never changes",
		"projects: [{name: shop, branches: [{name: main, variables: [{name: TOKEN, value: literal}]}]}]": "1:82: value is a secret, which stands in no file",
		"projects: [{name: shop, branches: [{name: main, variables: [{name: NEW, isSecret: true, value: {fromEnv: " +
			"UNSET}}]}]}]": "the variable UNSET of the environment is not set, or empty",
		"projects: [{name: shop, branches: [{name: main, variables: [{name: NEW, isSecret: true}]}]}]": "1:68: There is no variable NEW yet, and it is made with value alone",
		"projects: [{name: shop, environments: [{branchName: next, environmentType: production}]}]":    "environmentType of the environment next is \"preview\", and never changes",
		"keyBuckets: [{name: partners, consumers: [{name: ada, keys: [{description: ci}]}]}]":          "There is no key ci, and files make none",
		"keyBuckets: [{name: partners, consumers: [{name: bob, managers: [new@example.com]}]}]":        "There is no manager new@example.com yet, and it is made with sub alone",
		"meteringBuckets: [{name: sold, plans: [{planExternalId: pro}], subscriptions: [{subscriptionExternalId: b, " +
			"customerExternalId: c, customerKey: ada, planExternalIds: [none], region: us-east1, renewalStrategy: monthly, " +
			"status: active, type: periodic}]}]": "There is no plan none in these files",
	} {
		f.changes = nil
		if _, err := compare(t.Context(), f, writeTemp(t, text), files.Options{}); exit.CodeOf(err) != exit.Invalid ||
			!strings.Contains(errorText(err), want) || len(f.changes) > 0 {
			t.Errorf("Compare(%s) error = %s after the changes %v, want code %d and %q after none",
				text, errorText(err), f.changes, exit.Invalid, want)
		}
	}
}

// TestEqualValuesAreNotChanged checks that Compare plans no change for values that differ only in the order of their
// members, the notation of numbers, the time zone, or a fraction of a millisecond. It also checks that no digit is
// lost.
func TestEqualValuesAreNotChanged(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, "keyBuckets: [{name: partners, consumers: [{name: a, metadata: {n: 1.50, big: 9007199254740993, o: "+
		"{a: 1, b: 2}}}]}]")
	for metadata, want := range map[string]int{
		"{o: {b: 2, a: 1}, big: 9007199254740993, n: 1.5}":     0,
		"{o: {b: 2, a: 1}, big: 9007199254740992, n: 1.5}":     1,
		"{o: {b: 2, a: 1}, big: 9007199254740993, n: 15e-1}":   0,
		"{o: {b: 2, a: 1}, big: 9007199254740993, n: \"1.5\"}": 1,
	} {
		p := mustCompare(t, f, "keyBuckets: [{name: partners, description: \"\", tags: {}, consumers: [{name: "+
			"a, metadata: "+metadata+"}]}]", files.Options{})
		if len(p.Changes) != want {
			t.Errorf("Compare() with the metadata %s = %d changes, want %d", metadata, len(p.Changes), want)
		}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"1e999999999", "1e999999998", false},
		{"1e2", "100", true},
		{"-0", "0", true},
		{"0.1", "0.10000000000000000555", false},
	} {
		if files.SameNumber(tt.a, tt.b) != tt.want {
			t.Errorf("SameNumber(%s, %s) = %t, want %t", tt.a, tt.b, !tt.want, tt.want)
		}
	}
	for other, want := range map[string]bool{
		`"2030-01-31T00:00:00Z"`: true, `"2030-01-31T01:00:00+01:00"`: true, `"2030-01-31T00:00:00.0001Z"`: true,
		`"2030-01-31T00:00:00.001Z"`: false, `"2030-01-31T00:00:00+01:00"`: false, `"never"`: false, "null": false,
	} {
		if files.SameTime(`"2030-01-31T00:00:00.000Z"`, other) != want {
			t.Errorf("SameTime(2030-01-31T00:00:00.000Z, %s) = %t, want %t", other, !want, want)
		}
	}
}
