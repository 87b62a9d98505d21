package repolint

const storeImport = `"github.com/gatewright/gatewright/shared/core/store"`

// prefixTree returns a tree with two packages that use the store.
func prefixTree(a, b string) map[string]string {
	return map[string]string{
		"shared/a/a.go": "package a\nimport " + storeImport + "\n" + a,
		"shared/b/b.go": "package b\nimport " + storeImport + "\n\n" + b,
	}
}

// recordCases returns cases about the records of the table.
func recordCases() []ruleCase {
	return []ruleCase{
		{
			"a record with UnknownAttributes", Records,
			file("k/k.go", "package k\nimport "+storeImport+"\n"+
				"type a struct {\nstore.UnknownAttributes\nID string `dynamodbav:\"id\"`\n}"),
			nil,
		},
		{
			"a record without UnknownAttributes", Records,
			file("k/k.go", "package k\ntype a struct {\nID string `dynamodbav:\"id\"`\n}"),
			[]string{"k/k.go:2: a is stored and loses"},
		},
		{
			"a record with another package's UnknownAttributes", Records,
			file("k/k.go", "package k\nimport "+storeImport+"\ntype UnknownAttributes int\n"+
				"type a struct {\nUnknownAttributes\nID string `dynamodbav:\"id\"`\n}\nvar _ store.UnknownAttributes"),
			[]string{"a is stored and loses"},
		},
		{
			"a struct within a record, in a group of types", Records,
			file("k/k.go", "package k\ntype (\n a struct { B string `json:\"b\" dynamodbav:\"b\"` }\n)"),
			[]string{"k/k.go:3"},
		},
		{
			"a struct without a name, which is only read", Records,
			file("k/k.go", "package k\nvar a struct { B string `dynamodbav:\"b\"` }"), nil,
		},
		{
			"a struct that is not stored", Records,
			file("k/k.go", "package k\ntype a struct { B string `json:\"b\"`; C string `dynamodbav:\"-\"` }"), nil,
		},
		{
			"a record of a test", Records,
			file("k/k_test.go", "package k\ntype a struct { B string `dynamodbav:\"b\"` }"), nil,
		},
	}
}

// keyPrefixCases returns cases about the prefixes of the keys of the table.
func keyPrefixCases() []ruleCase {
	return []ruleCase{
		{
			"different key prefixes in two packages", KeyPrefixes,
			prefixTree(
				"// A has.\nconst a store.KeyPrefix = \"a-b\"",
				"const (\n// B has.\nb store.KeyPrefix = \"b\"\n)",
			), nil,
		},
		{
			"one key prefix in two packages", KeyPrefixes,
			prefixTree(
				"// A has.\nconst a store.KeyPrefix = \"x\"",
				"// B has.\nconst b store.KeyPrefix = \"x\"",
			),
			[]string{"shared/b/b.go:5: the key prefix \"x\" is declared in shared/a/a.go"},
		},
		{
			"an invalid key prefix and a conversion in package store", KeyPrefixes,
			file("shared/core/store/s.go", "package store\ntype KeyPrefix string\nconst a KeyPrefix = \"#\"\n"+
				"var b = KeyPrefix(\"b\")"),
			[]string{"the key prefix a is not"},
		},
		{
			"a key prefix without a comment, with a renamed import of the store", KeyPrefixes,
			file("k/k.go", "package k\nimport table "+storeImport+"\nconst a table.KeyPrefix = \"a\""),
			[]string{"a has no comment"},
		},
		{
			"a key prefix that needs escaping", KeyPrefixes, prefixTree("// A has.\nconst a store.KeyPrefix = \"a%b\"", ""),
			[]string{"the key prefix a is not"},
		},
		{
			"a key prefix with a comment only on its group", KeyPrefixes,
			prefixTree("// All have.\nconst (\na store.KeyPrefix = \"a\"\n)", ""),
			[]string{"a has no comment"},
		},
		{
			"a key prefix that repeats the constant above", KeyPrefixes,
			prefixTree("const (\n// A has.\na store.KeyPrefix = \"a\"\n// B has.\nb\nc = 1\n)", ""),
			[]string{"the key prefix b is not"},
		},
		{
			"a key prefix in a variable", KeyPrefixes, prefixTree("// A has.\nvar a store.KeyPrefix = \"a\"", ""),
			[]string{"the key prefix a is not"},
		},
		{
			"a key literal", KeyPrefixes,
			prefixTree("func f(a string) store.Key { return store.Key{PK: \"a#\" + a, SK: \".\"} }", ""),
			[]string{"a key literal"},
		},
		{"an empty key literal", KeyPrefixes, prefixTree("func f() store.Key { return store.Key{} }", ""), nil},
		{
			"a partition literal", KeyPrefixes,
			prefixTree("func f(a string) store.Key { return store.KeyIn(\"a#\" + a, a) }", ""),
			[]string{"a partition literal"},
		},
		{
			"a partition of a key prefix", KeyPrefixes,
			prefixTree("// A has.\nconst s store.KeyPrefix = \"s\"\n"+
				"func f(a string) store.Key { return store.KeyIn(s.Partition(a), a) }", ""), nil,
		},
		{
			"a key prefix converted from a string", KeyPrefixes,
			prefixTree("func f(s string) store.KeyPrefix { return store.KeyPrefix(s) }", ""),
			[]string{"converted from a string"},
		},
		{
			"a key prefix converted from a string in a test", KeyPrefixes,
			file("k/k_test.go", "package k\nimport "+storeImport+"\nvar a = store.KeyPrefix(\"a\")"), nil,
		},
		{
			"another package's type KeyPrefix", KeyPrefixes,
			file("k/k.go", "package k\ntype KeyPrefix string\nvar a = KeyPrefix(\"#\")"), nil,
		},
	}
}
