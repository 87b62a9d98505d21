package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// forge makes a hostile archive of a seed. The seeds go through the families one
// after the other; what is chosen within one is random.
func forge(seed uint64) (family string, archive []byte) {
	f := &forger{rand.New(rand.NewPCG(seed, 9))}
	all := families()
	chosen := all[seed%uint64(len(all))]
	return chosen.name, chosen.make(f)
}

type forger struct{ *rand.Rand }

// size is a number up to most, small ones as often as large ones.
func (f *forger) size(most int) int { return int(math.Exp(f.Float64() * math.Log(float64(most)))) }

func (f *forger) one(texts ...string) string { return texts[f.IntN(len(texts))] }

// repeat joins n results of each with commas. It stops after about 20 MiB.
func repeat(n int, each func(i int) string) string {
	const most, comma, moreDigits = 20 << 20, 1, 4
	var b strings.Builder
	for i := range n {
		if b.Len() > most {
			break
		}
		text := each(i)
		if i == 0 {
			b.Grow(min(n*(len(text)+comma+moreDigits), most+len(text)+comma)) // growing from nothing would copy all of it several times
		} else {
			b.WriteByte(',')
		}
		b.WriteString(text)
	}
	return b.String()
}

func nested(open string, depth int, inside, end string) string {
	return strings.Repeat(open, depth) + inside + strings.Repeat(end, depth)
}

// openAPI is a document of either version with more members.
func (f *forger) openAPI(members string) string {
	return `{"openapi": "` + f.one("3.0.3", "3.1.0") + `", "info": {"title": "t", "version": "1"}, ` + members + `}`
}

// route is an operation with a handler's options and more members.
func route(options, more string) string {
	return `{"get": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": ` + options + `}` + more + `}}}`
}

const plainOptions = `{"baseUrl": "https://example.com"}`

func inPath(members string) string { return `"paths": {` + members + `}` }

// project packs files of a project.
func packed(files ...string) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, flate.BestSpeed)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		_ = w.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[i+1]))})
		_, _ = w.Write([]byte(files[i+1]))
	}
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

func document(text string) []byte { return packed("config/routes.oas.json", text) }

type family struct {
	name string
	make func(f *forger) []byte
}

func families() []family {
	return append(documents(), append(projects(), archives()...)...)
}

// documents are OpenAPI documents and JSON.
func documents() []family {
	return []family{
		{"long name with errors below", func(f *forger) []byte {
			name, n := strings.Repeat("x", f.size(300_000)), f.size(20_000)
			return document(f.openAPI(inPath(`"/` + name + `": {` + repeat(n, func(i int) string { return fmt.Sprintf(`"a%d": 1`, i) }) + `}`)))
		}},
		{"names of the most that is allowed", func(f *forger) []byte {
			n := f.size(20_000)
			return document(f.openAPI(inPath(repeat(n, func(i int) string { return fmt.Sprintf(`"/%s%d": {"get": {"x": 1}}`, strings.Repeat("y", 2_000), i) }))))
		}},
		{"errors at the bottom", func(f *forger) []byte {
			schema := f.one("not", "items", "additionalProperties")
			bad := `{"properties": {` + repeat(f.size(200_000), func(i int) string { return fmt.Sprintf(`"a%d": 1`, i) }) + `}}`
			return document(f.openAPI(inPath("") + `, "components": {"schemas": {"a": ` + nested(`{"`+schema+`":`, f.IntN(120), bad, "}") + `}}`))
		}},
		{"many wrong parts", func(f *forger) []byte {
			n, bad := f.size(300_000), f.one("1", "{}", `{"get": 1}`, `{"get": {"responses": 1}}`, "[]")
			section := f.one(`"paths"`, `"webhooks"`, `"components": {"schemas"`, `"components": {"responses"`)
			text := section + `: {` + repeat(n, func(i int) string { return fmt.Sprintf(`"/%d": %s`, i, bad) }) + `}`
			if strings.Contains(section, "components") {
				text += "}"
			}
			return document(f.openAPI(text))
		}},
		{"values and nothing else", func(f *forger) []byte {
			each := f.one("[]", "{}", "0", `{"":0}`, `{"a":{"b":0}}`, `""`, "[[[[[]]]]]", `"`+strings.Repeat("z", 1000)+`"`)
			list := "[" + repeat(f.size(8<<20), func(int) string { return each }) + "]"
			return document(f.one(list, f.openAPI(inPath("")+`, "x-a": `+list), f.openAPI(inPath("")+`, "tags": `+list), f.openAPI(inPath("")+`, "components": {"examples": {"e": {"value": `+list+`}}}`)))
		}},
		{"nesting", func(f *forger) []byte {
			depth := f.size(5_000_000)
			return document(f.openAPI(f.one(`"x-a": `+nested("[", depth, "", "]"), `"x-a": `+nested(`{"a":`, depth, "1", "}"), `"x-a": `+strings.Repeat("[", depth))))
		}},
		{"alternatives in alternatives", func(f *forger) []byte {
			word, wide := f.one("allOf", "anyOf", "oneOf"), 1+f.IntN(3)
			var tree func(depth int) string
			left := f.size(300_000)
			tree = func(depth int) string {
				if left--; depth == 0 || left < 0 {
					return f.one("1", `{"type": "x"}`, "{}", `{"$ref": 1}`)
				}
				return `{"` + word + `": [` + repeat(1+wide, func(int) string { return tree(depth - 1) }) + `]}`
			}
			return document(f.openAPI(inPath("") + `, "components": {"schemas": {"a": ` + tree(1+f.IntN(50)) + `}}`))
		}},
		{"references", func(f *forger) []byte {
			n := f.size(100_000)
			target := f.one("#/components/schemas/%d", "#/nowhere/%d", "#/"+strings.Repeat("a/", 200)+"%d", "#/components/schemas/0/allOf/0/allOf/%d")
			return document(f.openAPI(inPath("") + `, "components": {"schemas": {` + repeat(min(n, 19_000), func(i int) string {
				return fmt.Sprintf(`"%d": {"allOf": [{"$ref": "`+target+`"}, {"$ref": "`+target+`"}]}`, i, (i+1)%n, (i+7)%n)
			}) + `}}`))
		}},
		{"lists without two equal entries", func(f *forger) []byte {
			n := f.size(150_000)
			entry := func(i int) string { return fmt.Sprintf(`{"name": "%d", "in": "query", "schema": {}}`, i) }
			return document(f.openAPI(inPath(f.one(
				`"/a": {"parameters": [`+repeat(n, entry)+`]}`,
				`"/a": {"get": {"tags": [`+repeat(n, strconv.Itoa)+`], "responses": {}}}`,
				`"/a": `+nested(`{"parameters": [`, 1, nested(`{"content": {"a": {"schema": {"enum": [`, 1, repeat(n, strconv.Itoa), "]}}}}"), "]}")))))
		}},
		{"numbers", func(f *forger) []byte {
			number := f.one("1e308", "-1e-308", "1e999999999", strings.Repeat("9", f.size(1_000_000)), "0."+strings.Repeat("0", 60)+"1")
			return document(f.openAPI(inPath("") + `, "components": {"schemas": {"a": {"maxLength": ` + number + `, "minimum": ` + number + `, "multipleOf": ` + number + `, "enum": [` + repeat(f.size(50_000), func(int) string { return number }) + `]}}}`))
		}},
		{"one object with many members", func(f *forger) []byte {
			n := f.size(500_000)
			return document(f.openAPI(f.one(inPath(repeat(n, func(i int) string { return fmt.Sprintf(`"/%d": {}`, i) })),
				repeat(n, func(i int) string { return fmt.Sprintf(`"x-%d": 0`, i) }), inPath(repeat(n, func(int) string { return `"/same": {}` })))))
		}},
		{"callbacks in callbacks", func(f *forger) []byte {
			inside := `{"responses": {}, "requestBody": {"content": {` + repeat(f.size(19_000), func(i int) string { return fmt.Sprintf(`"a%d": {"schema": %s}`, i, f.one("{}", "1", "true")) }) + `}}}`
			return document(f.openAPI(inPath(`"/a": {"get": ` + nested(`{"responses": {}, "callbacks": {"a": {"b": {"get":`, f.IntN(30), inside, "}}}}") + `}`)))
		}},
		{"text that is no JSON", func(f *forger) []byte {
			text := []byte(f.openAPI(inPath(repeat(f.size(50_000), func(i int) string { return fmt.Sprintf(`"/%d": {"get": {"responses": {}}}`, i) }))))
			for range 1 + f.IntN(5) {
				text[f.IntN(len(text))] = byte(f.IntN(256))
			}
			return document(string(text[:f.IntN(len(text))]))
		}},
	}
}

// projects are routes, policies and settings.
func projects() []family {
	return []family{
		{"variables that multiply", func(f *forger) []byte {
			text := strings.Repeat(f.one("$env(V1)", "$env(V1) ", "${env.V1}", "$env(NONE)", "$env(V1", "${e(env.V2)}"), f.size(1_000_000))
			options := f.one(`{"baseUrl": "https://x/`+text+`"}`, `{"baseUrl": "`+text+`"}`, `{"x": ["`+strings.Join(strings.SplitAfter(text, ")"), `","`)+`"]}`)
			return document(f.openAPI(inPath(repeat(f.size(500), func(i int) string { return fmt.Sprintf(`"/%d": %s`, i, route(options, "")) }))))
		}},
		{"large options", func(f *forger) []byte {
			options := f.one(`{"baseUrl": "https://x/`+strings.Repeat("<", f.size(64<<10))+`"}`,
				`{`+repeat(f.size(30_000), func(i int) string { return fmt.Sprintf(`"o%d": 1`, i) })+`}`, `{"baseUrl": [`+repeat(f.size(30_000), strconv.Itoa)+`]}`,
				`{"baseUrl": "https://x/`+strings.Repeat("${params.a}", f.size(1_400))+`"}`, `{"baseUrl": "https://x/`+strings.Repeat("${", f.size(8_000))+`"}`)
			more := f.one("", `, "mcp": {"type": "tool", "_meta": {"a": [`+repeat(f.size(30_000), strconv.Itoa)+`]}}`)
			return document(f.openAPI(inPath(repeat(f.size(14_000), func(i int) string { return fmt.Sprintf(`"/%d": %s`, i, route(options, more)) }))))
		}},
		{"many routes", func(f *forger) []byte {
			path := f.one("/%d", "/{a}/%d", "/{a}-%d-{b}", "/a/{b}.{c}~%d", "/%%%d", "/{x%d}", "/same")
			return document(f.openAPI(inPath(repeat(f.size(40_000), func(i int) string {
				return `"` + strings.ReplaceAll(fmt.Sprintf(path, i), "%!(EXTRA", "") + `": ` + route(plainOptions, "")
			}))))
		}},
		{"URL patterns", func(f *forger) []byte {
			pattern := f.one("/("+strings.Repeat("a?", f.size(20_000))+")%d", strings.Repeat("/(a{1000})", f.size(100))+"%d", "/((?:a{30}){30})%d", "/(.{0,900}x)%d",
				"/((?:"+strings.Repeat("a|", f.size(400))+")+)%d", "/%d/*", "/:a%d", strings.Repeat("{/:b}?", f.size(150))+"/%d", "/([^\\\\pL\\\\pN]{500})%d", strings.Repeat("(", f.size(900))+"%d")
			return document(f.openAPI(inPath(repeat(f.size(3_000), func(i int) string {
				return `"` + fmt.Sprintf(pattern, i) + `": ` + strings.Replace(route(f.one(plainOptions, `{"baseUrl": "https://x/`+strings.Repeat("${params.a}", f.size(1_400))+`"}`), ""), "{", `{"x-gateway-path": {"pathMode": "url-pattern"}, `, 1)
			}))))
		}},
		{"policies", func(f *forger) []byte {
			options := f.one("{}", `{"bucketName": "$env(V3)"}`, `{`+repeat(f.size(3_000), func(i int) string { return fmt.Sprintf(`"o%d": "$env(NONE%d)"`, i, i) })+`}`)
			policies := repeat(f.size(20_000), func(i int) string {
				return fmt.Sprintf(`{"name": "p%d", "policyType": "api-key-inbound", "handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": %s}}`, i%(1+f.IntN(1+i)), options)
			})
			origins := repeat(f.size(100_000), func(i int) string { return f.one(`"https://*.example.com"`, `"$env(V4)"`, `"x"`, "1") })
			return packed("config/routes.oas.json", f.openAPI(inPath(`"/": `+route(plainOptions, `, "policies": {"inbound": [`+repeat(f.size(150), func(i int) string { return fmt.Sprintf(`"p%d"`, i) })+`]}`))),
				"config/policies.json", `{"policies": [`+policies+`], "corsPolicies": [{"name": "a", "allowedOrigins": [`+origins+`]}]}`)
		}},
		{"settings", func(f *forger) []byte {
			comment := f.one("// "+strings.Repeat("x", f.size(1<<20))+"\n", "/*"+strings.Repeat(" ", f.size(20<<20))+"*/", strings.Repeat("[", f.size(1<<20)), strings.Repeat(", \n", f.size(1<<20)))
			return packed("config/routes.oas.json", f.openAPI(inPath(`"/": `+route(plainOptions, ""))), "gatewright.jsonc",
				comment+`{"version": 1, `+repeat(f.size(100_000), func(i int) string { return fmt.Sprintf(`"unknown%d": %d`, i, i) })+`}`)
		}},
		{"many documents", func(f *forger) []byte {
			var files []string
			text := f.openAPI(inPath(`"/": ` + route(plainOptions, "") + `, "x-a": [` + repeat(f.size(20_000), func(int) string { return "[]" }) + `]`))
			for i := range f.size(3_000) {
				files = append(files, fmt.Sprintf("config/%d.oas.json", i), text)
			}
			return packed(files...)
		}},
	}
}

// archives are tar and gzip.
func archives() []family {
	return []family{
		{"headers of tar", func(f *forger) []byte {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, flate.BestSpeed)
			w := tar.NewWriter(z)
			kind, long := []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeXGlobalHeader}[f.IntN(5)], f.size(500_000)
			for i := range f.size(25_000) {
				h := &tar.Header{Name: fmt.Sprintf("%s%d", strings.Repeat(f.one("a", "a/", "../", "é"), f.IntN(200)), i), Typeflag: kind, Mode: 0o600, Linkname: "x", Format: tar.FormatPAX}
				h.PAXRecords = map[string]string{"GATEWRIGHT.x": strings.Repeat(f.one("x", "y"), long)}
				if kind == tar.TypeXGlobalHeader {
					h = &tar.Header{Typeflag: kind, Name: "g", PAXRecords: h.PAXRecords}
				}
				if kind == tar.TypeReg || kind == tar.TypeDir || kind == tar.TypeXGlobalHeader {
					h.Linkname = ""
				}
				if w.WriteHeader(h) != nil || b.Len() > 8<<20 || i*long > 300<<20 {
					break
				}
			}
			_ = w.Close()
			_ = z.Close()
			return b.Bytes()
		}},
		{"small files", func(f *forger) []byte {
			var files []string
			for i := range f.size(25_000) {
				files = append(files, fmt.Sprintf("%s/f%d", strings.Repeat("d", f.size(600)), i), "x")
			}
			return packed(files...)
		}},
		{"bombs", func(f *forger) []byte {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, flate.BestSpeed)
			w := tar.NewWriter(z)
			size := int64(f.size(600 << 20))
			_ = w.WriteHeader(&tar.Header{Name: f.one("zeros", "config/routes.oas.json"), Typeflag: tar.TypeReg, Mode: 0o600, Size: size})
			zeros := make([]byte, 1<<20)
			for left := size; left > 0; left -= int64(len(zeros)) {
				_, _ = w.Write(zeros[:min(left, int64(len(zeros)))])
			}
			_ = w.Close()
			_ = z.Close()
			if f.IntN(2) == 0 {
				return packed("config/routes.oas.json", string(b.Bytes()[:min(b.Len(), 20<<20)]))
			}
			return b.Bytes()
		}},
		{"blocks of nothing", func(f *forger) []byte { return empty(f.IntN(3), f.size(8<<20)) }},
		{"members and rubbish", func(f *forger) []byte {
			good := document(f.openAPI(inPath(`"/": ` + route(plainOptions, ""))))
			switch f.IntN(4) {
			case 0:
				return append(good, bytes.Repeat(good, f.size(2_000))...)
			case 1:
				return packed("x", string(good))[:f.IntN(100)]
			case 2:
				for range 1 + f.IntN(4) {
					good[f.IntN(len(good))] ^= byte(1 << f.IntN(8))
				}
				return good
			default:
				noise := make([]byte, f.size(4<<20))
				for i := range noise {
					noise[i] = byte(f.Uint32())
				}
				return append([]byte{0x1f, 0x8b, 8, byte(f.IntN(32))}, noise...)
			}
		}},
		{"holes", func(f *forger) []byte {
			claimed := f.one("1", "25165824", "536870912", "9223372036854775807", strconv.Itoa(f.size(25<<20)))
			return sparse(claimed, f.size(5_000))
		}},
	}
}

// empty is a gzip stream that unpacks to nothing for most of its length: of
// members, of stored blocks, or of blocks with codes of their own.
func empty(kind, size int) []byte {
	head := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}
	end := []byte{0x03, 0x00, 0, 0, 0, 0, 0, 0, 0, 0}
	member := append(bytes.Clone(head), end...)
	if kind == 0 {
		return bytes.Repeat(member, size/len(member)+1)
	}
	var out bytes.Buffer
	out.Write(head)
	if kind == 1 {
		out.Write(bytes.Repeat([]byte{0, 0, 0, 255, 255}, size/5))
		out.Write(end)
		return out.Bytes()
	}
	// A block with dynamic codes: 257 literals, of which the end alone has a
	// code, and one distance.
	var bits uint64
	var n uint
	put := func(value uint64, width uint) {
		for bits, n = bits|value<<n, n+width; n >= 8; n -= 8 {
			out.WriteByte(byte(bits))
			bits >>= 8
		}
	}
	for out.Len() < size {
		put(0b100, 3) // not final, dynamic
		put(0, 5)     // 257 literals and lengths
		put(0, 5)     // one distance
		put(14, 4)    // 18 lengths of codes: 16, 17, 18, 0, 8 … 1
		for i := range 18 {
			put(map[int]uint64{2: 1, 17: 1}[i], 3) // of 18 and of 1
		}
		put(1, 1)
		put(138-11, 7) // 138 zeros
		put(1, 1)
		put(118-11, 7) // 118 more
		put(0, 1)      // the end's code has one bit
		put(0, 1)      // and the distance's
		put(0, 1)      // the end
	}
	put(0, 7)
	out.Write(end)
	return out.Bytes()
}

// sparse is an archive with a file of many holes, in GNU's form of PAX.
func sparse(size string, entries int) []byte {
	var table strings.Builder
	fmt.Fprintf(&table, "%d\n", entries)
	for i := range entries {
		fmt.Fprintf(&table, "%d\n0\n", i)
	}
	content := table.String()
	content += strings.Repeat("\x00", (512-len(content)%512)%512)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	records := ""
	for _, kv := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=config/routes.oas.json", "GNU.sparse.realsize=" + size} {
		n := len(kv) + 2
		n += len(strconv.Itoa(n + len(strconv.Itoa(n))))
		records += fmt.Sprintf("%d %s\n", n, kv)
	}
	block := func(kind byte, size int) {
		h := make([]byte, 512)
		copy(h, "x")
		copy(h[100:], "0000600\x000000000\x000000000\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00        ", size, 0))
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		_, _ = z.Write(h)
	}
	block('x', len(records))
	_, _ = z.Write([]byte(records + strings.Repeat("\x00", (512-len(records)%512)%512)))
	block('0', len(content))
	_, _ = z.Write([]byte(content))
	_, _ = z.Write(make([]byte, 1024))
	_ = z.Close()
	return b.Bytes()
}
