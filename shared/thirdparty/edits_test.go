package thirdparty_test

// edit is a change of one file of a module: old occurs there exactly once and is replaced by text.
type edit struct{ file, old, text string }

// edits returns the changes of a copy, apart from import paths (docs/decisions/0072).
func edits(folder string) []edit {
	all := map[string][]edit{"jsonschema": startEdits()}
	all["jsonschema"] = append(all["jsonschema"], boundEdits()...)
	all["jsonschema"] = append(all["jsonschema"], comparisonEdits()...)
	return all[folder]
}

// startEdits let the first NewCompiler compile the metaschemas, which the library compiles when it is imported. Every
// caller that compiles or validates a schema has called NewCompiler before. The library's own compiler of metaschemas is
// made by newCompiler, which compiles none.
func startEdits() []edit {
	return []edit{
		{"draft.go", "\nfunc init() {\n\tc := NewCompiler()\n", "\n// Changed by Gatewright: this was an init " +
			"function.\nfunc compileMetaschemas() {\n\tc := newCompiler()\n"},
		{"compiler.go", "\nfunc NewCompiler() *Compiler {\n", "\n// Changed by Gatewright: the first call compiles the " +
			"metaschemas.\nfunc NewCompiler() *Compiler {\n\tmetaschemas.Do(compileMetaschemas)\n\treturn newCompiler()\n}\n\n" +
			"var metaschemas sync.Once\n\nfunc newCompiler() *Compiler {\n"},
		{"compiler.go", "\t\"slices\"\n)", "\t\"slices\"\n\t\"sync\"\n)"},
	}
}

// boundEdits let a caller bound the work and the memory of a validation (Bound). Without a bound, validations are as in
// the library, with one exception: the locations of invalid names, which share memory with later locations in the
// library, are copied.
func boundEdits() []edit {
	return []edit{
		{"validator.go", validateOld, validateNew},
		{
			"validator.go", "\tscp := vd.scp.child(sch, refKw, vd.scp.vid)\n",
			"\tif !vd.begins(sch, vd.v, !vd.uneval.isEmpty()) {\n\t\treturn failed\n\t}\n" +
				"\tscp := vd.scp.child(sch, refKw, vd.scp.vid)\n",
		},
		{
			"validator.go", "\tvloc := append(vd.vloc, vtok)\n",
			"\tif !vd.begins(sch, v, false) {\n\t\treturn failed\n\t}\n\tvloc := append(vd.vloc, vtok)\n",
		},
		{
			"validator.go", "\tif err != nil {\n\t\trefErr :=",
			"\tif err != nil && vd.boolResult {\n\t\treturn failed\n\t} else if err != nil {\n\t\trefErr :=",
		},
		{
			"validator.go", "\t\tfor pname := range obj {\n\t\t\tsch, meta",
			"\t\tfor pname := range obj {\n\t\t\tif !vd.begins(s.PropertyNames, pname, false) {\n\t\t\t\tbreak\n\t\t\t}\n" +
				"\t\t\tsch, meta",
		},
		{
			"validator.go", "if err := sch.validate(pname, vd.regexpEngine, meta, resources, vd.assertVocabs, " +
				"vd.vocabularies); err != nil {\n\t\t\t\tverr := err.(*ValidationError)\n\t\t\t\tverr.InstanceLocation = vd.vloc\n",
			"if err := sch.validateIn(vd.scp.start(sch), vd.boolResult, pname, vd.regexpEngine, meta, resources, " +
				"vd.assertVocabs, vd.vocabularies); err != nil && !vd.scp.isSpent() {\n\t\t\t\tverr := err.(*ValidationError)\n" +
				"\t\t\t\tverr.InstanceLocation = vd.instanceLocation()\n",
		},
		{
			"validator.go", "if err = sch.validate(*deserialized, ",
			"if err = sch.validateIn(vd.scp.start(sch), vd.boolResult, *deserialized, ",
		},
		{"validator.go", errorsOld, errorsNew},
		{
			"validator.go", "\tparent *scope\n}\n",
			"\tparent *scope\n\n\t// Added by Gatewright: the bound, and the number of parents.\n\tbound Bound\n" +
				"\tdepth int\n}\n",
		},
		{
			"validator.go", "\treturn &scope{sch, refKeyword, vid, sc}\n",
			"\treturn &scope{sch, refKeyword, vid, sc, sc.bound, sc.depth + 1}\n",
		},
	}
}

// The edit of Validate adds the methods with a bound.
const (
	validateOld = `
	return sch.validate(v, nil, nil, nil, false, nil)
}

func (sch *Schema) validate(v any, regexpEngine RegexpEngine, meta *Schema, ` +
		`resources map[jsonPointer]*resource, assertVocabs bool, vocabularies map[string]*Vocabulary) error {
	vd := validator{
		v:            v,
		vloc:         make([]string, 0, 8),
		sch:          sch,
		scp:          &scope{sch, "", 0, nil},
		uneval:       unevalFrom(v, sch, false),
		errors:       nil,
		boolResult:   false,
`
	validateNew = `
	return sch.validate(v, nil, nil, nil, false, nil)
}

// Bound limits a validation. Added by Gatewright, with all that uses it.
type Bound interface {
	// Spend subtracts the work of applying s to v, without the work for parts of v. It reports whether work remains. depth
	// is the number of schemas that are being applied. records is set if the validation records which properties and
	// items of v have been evaluated.
	Spend(s *Schema, v any, depth int, records bool) bool
	// Failed subtracts the memory of an error.
	Failed(e *ValidationError)
	// IsSpent reports whether no work or no memory remains. The validation then ends soon.
	IsSpent() bool
}

// ValidateWithin is like Validate, with a bound. If the bound is spent, the error has the violations that were found
// before, or is nil.
func (sch *Schema) ValidateWithin(v any, b Bound) error {
	if !b.Spend(sch, v, 0, false) {
		return nil
	}
	return sch.validateIn(&scope{sch: sch, bound: b}, false, v, nil, nil, nil, false, nil)
}

// IsValidWithin reports whether v is valid, without memory for violations. If the bound is spent, the result has no
// meaning.
func (sch *Schema) IsValidWithin(v any, b Bound) bool {
	return b.Spend(sch, v, 0, false) &&
		sch.validateIn(&scope{sch: sch, bound: b}, true, v, nil, nil, nil, false, nil) == nil
}

// begins subtracts the work of applying a schema. It returns false if no work remains, or if the result is known.
func (vd *validator) begins(sch *Schema, v any, records bool) bool {
	if vd.boolResult && len(vd.errors) > 0 {
		return false
	}
	return vd.scp.bound == nil || vd.scp.bound.Spend(sch, v, vd.scp.depth, records)
}

// start returns the scope of a validation within another one.
func (sc *scope) start(sch *Schema) *scope {
	return &scope{sch: sch, bound: sc.bound, depth: sc.depth + 1}
}

func (sc *scope) isSpent() bool { return sc.bound != nil && sc.bound.IsSpent() }

func (sch *Schema) validate(v any, regexpEngine RegexpEngine, meta *Schema, ` +
		`resources map[jsonPointer]*resource, assertVocabs bool, vocabularies map[string]*Vocabulary) error {
	return sch.validateIn(&scope{sch: sch}, false, v, regexpEngine, meta, resources, assertVocabs, vocabularies)
}

func (sch *Schema) validateIn(scp *scope, boolResult bool, v any, regexpEngine RegexpEngine, meta *Schema, ` +
		`resources map[jsonPointer]*resource, assertVocabs bool, vocabularies map[string]*Vocabulary) error {
	vd := validator{
		v:            v,
		vloc:         make([]string, 0, 8),
		sch:          sch,
		scp:          scp,
		uneval:       unevalFrom(v, sch, false),
		errors:       nil,
		boolResult:   boolResult,
`
)

// The edit of the functions for errors keeps at most one error, without causes, if only the verdict is needed. If the
// bound is spent, it creates no errors but those that contain others: the verdict about alternatives is not known.
const (
	errorsOld = `	if vd.boolResult {
		return &ValidationError{}
	}
	return &ValidationError{
		SchemaURL:        vd.sch.Location,
		InstanceLocation: vd.instanceLocation(),
		ErrorKind:        kind,
		Causes:           nil,
	}
}

func (vd *validator) addErr(err error) {
	if err != nil {
		vd.errors = append(vd.errors, err.(*ValidationError))
	}
}

func (vd *validator) addError(kind ErrorKind) {
	vd.errors = append(vd.errors, vd.error(kind))
}

func (vd *validator) addErrors(errors []*ValidationError, kind ErrorKind) {
	err := vd.error(kind)
	err.Causes = errors
	vd.errors = append(vd.errors, err)
}
`
	errorsNew = `	if vd.boolResult || vd.scp.isSpent() && !isContainer(kind) {
		return failed
	}
	err := &ValidationError{
		SchemaURL:        vd.sch.Location,
		InstanceLocation: vd.instanceLocation(),
		ErrorKind:        kind,
		Causes:           nil,
	}
	if vd.scp.bound != nil {
		vd.scp.bound.Failed(err)
	}
	return err
}

// failed is the error without a kind. Nobody changes it.
var failed = &ValidationError{}

// isContainer reports whether an error of a kind only has the errors of a schema that is applied in any case.
func isContainer(k ErrorKind) bool {
	switch k.(type) {
	case *kind.Group, *kind.Reference, *kind.AllOf:
		return true
	}
	return false
}

func (vd *validator) addErr(err error) {
	if err != nil {
		vd.add(err.(*ValidationError))
	}
}

func (vd *validator) add(err *ValidationError) {
	if vd.boolResult && len(vd.errors) > 0 || err == failed && !vd.boolResult {
		return
	}
	vd.errors = append(vd.errors, err)
}

func (vd *validator) addError(kind ErrorKind) {
	vd.add(vd.error(kind))
}

func (vd *validator) addErrors(errors []*ValidationError, kind ErrorKind) {
	err := vd.error(kind)
	if err != failed {
		err.Causes = errors
	}
	vd.add(err)
}
`
)

// comparisonEdits make comparisons cheaper, so that their work can be bounded without refusing common values.
func comparisonEdits() []edit {
	return []edit{
		// Lists and objects with the same parts in another structure had the same hash. A client could send thousands.
		{"util.go", "\t\t_ = h.WriteByte(0)\n\t\tprops", "\t\twriteLength(0, len(v), h)\n\t\tprops"},
		{"util.go", "\t\t_ = h.WriteByte(1)\n\t\tfor", "\t\twriteLength(1, len(v), h)\n\t\tfor"},
		{"util.go", "\t\t_ = h.WriteByte(4)\n", "\t\twriteLength(4, len(v), h)\n"},
		{"util.go", "\nfunc writeHash(", lengthText + "\nfunc writeHash("},
		// Without these edits, each integer of a value took some 0.5 µs, and so did each comparison with one.
		{
			"util.go", "\tnum1, ok1 := new(big.Rat)",
			"\tif isPlain(v1) && isPlain(v2) {\n\t\t\treturn v1 == v2, nil\n\t\t}\n\t\tnum1, ok1 := new(big.Rat)",
		},
		{"util.go", "\trat, ok := new(big.Rat)", "\tif isPlain(num) {\n\t\treturn true\n\t}\n\trat, ok := new(big.Rat)"},
		{
			"validator.go", "\t\t\tnumVal, _ = new(big.Rat).SetString(",
			"\t\t\tif isPlain(v) {\n\t\t\t\tif n, err := v.(json.Number).Int64(); err == nil {\n" +
				"\t\t\t\t\tnumVal = new(big.Rat).SetInt64(n)\n\t\t\t\t\treturn numVal\n\t\t\t\t}\n\t\t\t}\n" +
				"\t\t\tnumVal, _ = new(big.Rat).SetString(",
		},
		// Each schema copied each string.
		{
			"validator.go", "\tdecoded := []byte(str)\n\tif",
			"\tif s.ContentEncoding == nil && s.ContentMediaType == nil {\n\t\treturn\n\t}\n\tdecoded := []byte(str)\n\tif",
		},
		// With this copy, the compiler keeps validators on the stack.
		{
			"validator.go", "\t\t\text.Validate(&ValidatorContext{vd}, v)\n",
			"\t\t\tinner := *vd\n\t\t\text.Validate(&ValidatorContext{&inner}, v)\n\t\t\tvd.errors = inner.errors\n",
		},
	}
}

// lengthText adds functions before writeHash.
const lengthText = `
// isPlain reports whether a value is an integer that has only one spelling without a fraction and an exponent. Added by
// Gatewright.
func isPlain(v any) bool {
	n, ok := v.(json.Number)
	return ok && n != "-0" && !strings.ContainsAny(string(n), ".eE")
}

// writeLength writes the type of a value and its length, so that values of different structures differ. Added by
// Gatewright.
func writeLength(kind byte, length int, h *maphash.Hash) {
	_ = h.WriteByte(kind)
	_, _ = h.WriteString(strconv.Itoa(length))
	_ = h.WriteByte(';')
}
`
