package thirdparty_test

// limitEdits returns the edits with which a caller can bound the work and the memory of a validation (Limits). Values
// come from clients, and a schema can apply exponentially many schemas to a small value.
func limitEdits() []edit {
	return append(countingEdits(), memoryEdits()...)
}

// countingEdits count the work, and stop the validation when none remains.
func countingEdits() []edit {
	return []edit{
		{"validator.go", "\nfunc (sch *Schema) validate(v any, regexpEngine RegexpEngine, meta *Schema, " +
			"resources map[jsonPointer]*resource, assertVocabs bool, vocabularies map[string]*Vocabulary) error {\n" +
			"\tvd := validator{\n", limitsText},
		{"validator.go", "boolResult:   false,\n", "boolResult:   limits != nil && limits.VerdictOnly,\n"},
		{
			"validator.go", "\tregexpEngine RegexpEngine\n\n\t// meta validation",
			"\tregexpEngine RegexpEngine\n\tlimits       *Limits\n\n\t// meta validation",
		},
		{
			"validator.go", "\ts := vd.sch\n\tv := vd.v\n\n\t// boolean --\n",
			"\ts := vd.sch\n\tv := vd.v\n\n\tif !vd.enter() {\n\t\treturn nil, &ValidationError{}\n\t}\n" +
				"\tdefer vd.leave()\n\n\t// boolean --\n",
		},
		{"validator.go", "if scp := vd.scp.checkCycle(); scp != nil {", "if scp := vd.checkCycle(); scp != nil {"},
		{"validator.go", "if regex.MatchString(pname) {", "if vd.matches(regex, pname) {"},
		{"validator.go", "if !s.Pattern.MatchString(str) {", "if !vd.matches(s.Pattern, str) {"},
		{
			"validator.go", "if err := sch.validate(pname, vd.regexpEngine,",
			"if err := sch.validateWithin(vd.limits, pname, vd.regexpEngine,",
		},
		{
			"validator.go", "if err = sch.validate(*deserialized, vd.regexpEngine,",
			"if err = sch.validateWithin(vd.limits, *deserialized, vd.regexpEngine,",
		},
		{
			"validator.go", "boolResult:   vd.boolResult || boolResult,\n",
			"boolResult:   vd.boolResult || boolResult,\n\t\tlimits:       vd.limits,\n",
		},
		{
			"validator.go", "\tvloc := append(vd.vloc, vtok)\n\tscp := vd.scp.child(sch, \"\", vd.scp.vid+1)\n" +
				"\tuneval := unevalFrom(v, sch, false)\n\tsubvd := validator{\n",
			"\tif vd.isDone() {\n\t\treturn nil\n\t}\n" +
				"\tvloc := append(vd.vloc, vtok)\n\tscp := vd.scp.child(sch, \"\", vd.scp.vid+1)\n" +
				"\tuneval := unevalFrom(v, sch, false)\n\tsubvd := validator{\n\t\tlimits:       vd.limits,\n",
		},
		{
			"validator.go", "\tvloc := append(vd.vloc, vpath...)\n\tscp := vd.scp.child(sch, \"\", vd.scp.vid+1)\n" +
				"\tuneval := unevalFrom(v, sch, false)\n\tsubvd := validator{\n",
			"\tvloc := append(vd.vloc, vpath...)\n\tscp := vd.scp.child(sch, \"\", vd.scp.vid+1)\n" +
				"\tuneval := unevalFrom(v, sch, false)\n\tsubvd := validator{\n\t\tlimits:       vd.limits,\n",
		},
		{
			"validator.go", "\t\tfor pname := range obj {\n\t\t\tsch, meta",
			"\t\tfor pname := range obj {\n\t\t\tif vd.isDone() {\n\t\t\t\tbreak\n\t\t\t}\n\t\t\tsch, meta",
		},
		{
			"validator.go", "\tscp := vd.scp.child(sch, refKw, vd.scp.vid)\n",
			"\tif vd.limits != nil && vd.limits.Work < 0 {\n\t\treturn &ValidationError{}\n\t}\n" +
				"\tscp := vd.scp.child(sch, refKw, vd.scp.vid)\n",
		},
		// Lists and objects with the same parts in another structure had the same hash. A client could send thousands.
		{"util.go", "\t\t_ = h.WriteByte(0)\n\t\tprops", "\t\twriteLength(0, len(v), h)\n\t\tprops"},
		{"util.go", "\t\t_ = h.WriteByte(1)\n\t\tfor", "\t\twriteLength(1, len(v), h)\n\t\tfor"},
		{"util.go", "\t\t_ = h.WriteByte(4)\n", "\t\twriteLength(4, len(v), h)\n"},
		{"util.go", "\tif len(arr) <= 20 {\n", "\tif len(arr) <= 20 && !slices.ContainsFunc(arr, isContainer) {\n"},
		{"util.go", "\nfunc writeHash(", hashText},
	}
}

// memoryEdits bound the memory of errors, and avoid copies of values.
func memoryEdits() []edit {
	return []edit{
		{
			"validator.go", "\tif vd.boolResult {\n\t\treturn &ValidationError{}\n\t}\n\treturn &ValidationError{\n",
			"\tif vd.boolResult || !vd.reserve(kind) {\n\t\treturn &ValidationError{}\n\t}\n\treturn &ValidationError{\n",
		},
		{
			"validator.go", "\t\tvar matched bool\n",
			"\t\tvar matched bool\n\t\tmemory := vd.limits.memory()\n",
		},
		{
			"validator.go", "\t\t\t\tmatched = true\n\t\t\t\t// for uneval",
			"\t\t\t\tmatched = true\n\t\t\t\tvd.limits.restore(memory)\n\t\t\t\t// for uneval",
		},
		{"validator.go", "\t\tvar matched = -1\n", "\t\tvar matched = -1\n\t\tmemory := vd.limits.memory()\n"},
		{"validator.go", "\t\t\t\t\tmatched = i\n", "\t\t\t\t\tmatched = i\n\t\t\t\t\tvd.limits.restore(memory)\n"},
		{"validator.go", "\t\tvar matched []int\n", "\t\tvar matched []int\n\t\tmemory := vd.limits.memory()\n"},
		{
			"validator.go", "strconv.Itoa(i)); err != nil {\n\t\t\t\terrors = append(errors, err.(*ValidationError))\n",
			"strconv.Itoa(i)); err != nil {\n\t\t\t\tif vd.limits == nil {\n" +
				"\t\t\t\t\terrors = append(errors, err.(*ValidationError))\n\t\t\t\t}\n\t\t\t\tvd.limits.restore(memory)\n",
		},
		{"validator.go", "utf8.RuneCount([]byte(str))", "utf8.RuneCountInString(str)"},
		// With this copy, the compiler keeps validators on the stack.
		{
			"validator.go", "\t\t\text.Validate(&ValidatorContext{vd}, v)\n",
			"\t\t\tinner := *vd\n\t\t\text.Validate(&ValidatorContext{&inner}, v)\n\t\t\tvd.errors = inner.errors\n",
		},
		{
			"validator.go", "\t\t\tnumVal, _ = new(big.Rat).SetString(fmt.Sprintf(\"%v\", v))\n",
			"\t\t\tif text, ok := v.(json.Number); ok && isPlain(text) {\n" +
				"\t\t\t\tif i, err := text.Int64(); err == nil {\n" +
				"\t\t\t\t\tnumVal = new(big.Rat).SetInt64(i)\n\t\t\t\t\treturn numVal\n\t\t\t\t}\n\t\t\t}\n" +
				"\t\t\tnumVal, _ = new(big.Rat).SetString(fmt.Sprintf(\"%v\", v))\n",
		},
		{
			"validator.go", "\tdecoded := []byte(str)\n\tif",
			"\tif s.ContentEncoding == nil && s.ContentMediaType == nil {\n\t\treturn\n\t}\n\tdecoded := []byte(str)\n\tif",
		},
		{
			"util.go", "\t\tnum1, ok1 := new(big.Rat)",
			"\t\tif text1, ok := v1.(json.Number); ok && isPlain(text1) {\n" +
				"\t\t\tif text2, ok := v2.(json.Number); ok && isPlain(text2) {\n" +
				"\t\t\t\treturn text1 == text2, nil\n\t\t\t}\n\t\t}\n\t\tnum1, ok1 := new(big.Rat)",
		},
		{
			"util.go", "\trat, ok := new(big.Rat).SetString(fmt.Sprint(num))\n",
			"\tif text, ok := num.(json.Number); ok && !strings.ContainsAny(string(text), \".eE\") {\n\t\treturn true\n\t}\n" +
				"\trat, ok := new(big.Rat).SetString(fmt.Sprint(num))\n",
		},
	}
}

// limitsText replaces the head of the function that makes the outermost validator.
const limitsText = `
// Limits bounds a validation. Added by Gatewright, like the functions up to validateWithin.
type Limits struct {
	// Work is the work that remains. The unit is applying one schema to one value. If it is negative after a
	// validation, the validation has stopped, and its result has no meaning.
	Work int
	// VerdictOnly makes the error of an invalid value contain no violations, so that it needs no memory.
	VerdictOnly bool
	// Memory is the number of bytes that remain for violations. If they do not suffice, the validation stops, and Work is
	// negative.
	Memory int

	depth int
}

// Amounts of other work that take as long as one unit.
const (
	bytesPerUnit      = 256
	stringsPerUnit    = 16
	numbersPerUnit    = 1
	matchStepsPerUnit = 32
	maxDepth          = 4000
	errorBytes        = 200
	tokenBytes        = 16
)

// ValidateWithin is like Validate, with limits. A schema must not apply itself to the same value (in place), because the
// validation then ends only with the limits.
func (sch *Schema) ValidateWithin(v any, limits *Limits) error {
	return sch.validateWithin(limits, v, nil, nil, nil, false, nil)
}

// enter subtracts the work of applying the schema. It reports whether the validation goes on.
func (vd *validator) enter() bool {
	l := vd.limits
	if l == nil {
		return true
	}
	l.depth++
	work := 1 + (len(vd.uneval.props)+len(vd.uneval.items))/4
	s := vd.sch
	switch v := vd.v.(type) {
	case string:
		work += len(v) / bytesPerUnit
	case json.Number:
		if s.Enum != nil {
			work += len(s.Enum.Values) / numbersPerUnit
		}
	case []any:
		if s.UniqueItems {
			work += hashWork(v)
		}
	case map[string]any:
		work += (len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)) / stringsPerUnit
	}
	if s.Enum != nil {
		work += len(s.Enum.Values) / stringsPerUnit
	}
	l.Work -= work
	if l.depth > maxDepth {
		l.Work = -1
	}
	return l.Work >= 0
}

func (vd *validator) leave() {
	if vd.limits != nil {
		vd.limits.depth--
	}
}

// isDone reports whether no further value can change the result.
func (vd *validator) isDone() bool {
	return vd.limits != nil && (vd.boolResult && len(vd.errors) > 0 || vd.limits.Work < 0)
}

// checkCycle is that of the scope. With limits it does nothing: its time is quadratic.
func (vd *validator) checkCycle() *scope {
	if vd.limits != nil {
		return nil
	}
	return vd.scp.checkCycle()
}

// matches matches a text, and counts the work of a regular expression that knows its instructions.
func (vd *validator) matches(re Regexp, text string) bool {
	if vd.limits != nil {
		vd.limits.Work--
		if counted, ok := re.(interface{ Instructions() int }); ok {
			vd.limits.Work -= len(text) * counted.Instructions() / matchStepsPerUnit
		}
		if vd.limits.Work < 0 {
			return false
		}
	}
	return re.MatchString(text)
}

// reserve subtracts the memory of an error, and reports whether it is created. Errors that only contain others are.
func (vd *validator) reserve(k ErrorKind) bool {
	l := vd.limits
	if l == nil {
		return true
	}
	switch k.(type) {
	case *kind.Group, *kind.Reference, *kind.AllOf, *kind.AnyOf, *kind.OneOf:
		return true
	}
	if l.Work < 0 {
		return false
	}
	l.Memory -= errorBytes + tokenBytes*len(vd.vloc)
	if l.Memory < 0 {
		l.Work = -1
	}
	return l.Memory >= 0
}

func (l *Limits) memory() int {
	if l == nil {
		return 0
	}
	return l.Memory
}

// restore sets the memory that remains: the errors since then are not needed.
func (l *Limits) restore(memory int) {
	if l != nil && l.Work >= 0 {
		l.Memory = memory
	}
}

func (sch *Schema) validate(v any, regexpEngine RegexpEngine, meta *Schema, ` +
	`resources map[jsonPointer]*resource, assertVocabs bool, vocabularies map[string]*Vocabulary) error {
	return sch.validateWithin(nil, v, regexpEngine, meta, resources, assertVocabs, vocabularies)
}

func (sch *Schema) validateWithin(limits *Limits, v any, regexpEngine RegexpEngine, meta *Schema, ` +
	`resources map[jsonPointer]*resource, assertVocabs bool, vocabularies map[string]*Vocabulary) error {
	vd := validator{
		limits:       limits,
`

// hashText adds functions before writeHash.
const hashText = `
// hashWork returns the work of writeHash.
func hashWork(v any) int {
	work := 1
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			work += 1 + len(name)/bytesPerUnit + hashWork(member)
		}
	case []any:
		for _, item := range v {
			work += hashWork(item)
		}
	case string:
		work += len(v) / bytesPerUnit
	}
	return work
}

// isPlain reports whether a number is an integer that has only one spelling without a fraction and an exponent.
func isPlain(n json.Number) bool { return n != "-0" && !strings.ContainsAny(string(n), ".eE") }

func isContainer(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// writeLength writes the type of a value and its length, so that values of different structures differ.
func writeLength(kind byte, length int, h *maphash.Hash) {
	_ = h.WriteByte(kind)
	_, _ = h.WriteString(strconv.Itoa(length))
	_ = h.WriteByte(';')
}

func writeHash(`
