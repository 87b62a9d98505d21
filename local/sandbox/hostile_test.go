package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// forgeArchive returns the hostile archive of a seed. Consecutive seeds
// use the families in turn. The choices within a family are random.
func forgeArchive(seed uint64) (family string, archive []byte) {
	f := &forger{rand.New(rand.NewPCG(seed, 9))}
	all := families()
	chosen := all[seed%uint64(len(all))]
	return chosen.name, chosen.build(f)
}

// forger makes the random choices of an archive.
type forger struct{ *rand.Rand }

// size returns a random number up to limit. All orders of magnitude are equally likely.
func (f *forger) size(limit int) int { return int(math.Exp(f.Float64() * math.Log(float64(limit)))) }

func (f *forger) pick(texts ...string) string { return texts[f.IntN(len(texts))] }

// repeat returns the results of item for 0 to n-1, joined with commas. It stops after about 20 MiB.
func repeat(n int, item func(i int) string) string {
	const maxBytes, comma, moreDigits = 20 << 20, 1, 4
	var b strings.Builder
	for i := range n {
		if b.Len() > maxBytes {
			break
		}
		text := item(i)
		if i == 0 {
			// Allocate once, because growing in steps would copy the text several times.
			b.Grow(min(n*(len(text)+comma+moreDigits), maxBytes+len(text)+comma))
		} else {
			b.WriteByte(',')
		}
		b.WriteString(text)
	}
	return b.String()
}

func nested(open string, depth int, inner, end string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
}

// openAPI returns an OpenAPI document of a random version with additional members.
func (f *forger) openAPI(members string) string {
	return `{"openapi": "` + f.pick("3.0.3", "3.1.0") + `", "info": {"title": "t", "version": "1"}, ` + members + `}`
}

// route returns an operation with a handler's options and additional members.
func route(options, more string) string {
	return `{"get": {"responses": {"200": {"description": "d"}}, ` +
		`"x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", ` +
		`"options": ` + options + `}` + more + `}}}`
}

const plainOptions = `{"baseUrl": "https://example.com"}`

func pathsObject(members string) string { return `"paths": {` + members + `}` }

// packFiles returns an archive of a project's files.
func packFiles(files ...string) []byte {
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

func document(text string) []byte { return packFiles("config/routes.oas.json", text) }

// family is a kind of hostile archives. build returns a random archive of this kind.
type family struct {
	name  string
	build func(f *forger) []byte
}

func families() []family {
	return slices.Concat(documents(), schemas(), projects(), archives())
}

// documents returns families of OpenAPI documents and JSON.
func documents() []family {
	return []family{
		{"long name with errors below", func(f *forger) []byte {
			name, n := strings.Repeat("x", f.size(300_000)), f.size(20_000)
			return document(f.openAPI(pathsObject(`"/` + name + `": {` + repeat(n, func(i int) string {
				return fmt.Sprintf(`"a%d": 1`, i)
			}) + `}`)))
		}},
		{"names near the allowed total", func(f *forger) []byte {
			n := f.size(20_000)
			return document(f.openAPI(pathsObject(repeat(n, func(i int) string {
				return fmt.Sprintf(`"/%s%d": {"get": {"x": 1}}`, strings.Repeat("y", 2_000), i)
			}))))
		}},
		{"errors at the bottom", func(f *forger) []byte {
			schema := f.pick("not", "items", "additionalProperties")
			invalid := `{"properties": {` + repeat(f.size(200_000), func(i int) string {
				return fmt.Sprintf(`"a%d": 1`, i)
			}) + `}}`
			return document(f.openAPI(pathsObject("") + `, "components": {"schemas": {"a": ` +
				nested(`{"`+schema+`":`, f.IntN(120), invalid, "}") + `}}`))
		}},
		{"many invalid members", func(f *forger) []byte {
			n, invalid := f.size(300_000), f.pick("1", "{}", `{"get": 1}`, `{"get": {"responses": 1}}`, "[]")
			section := f.pick(`"paths"`, `"webhooks"`, `"components": {"schemas"`, `"components": {"responses"`)
			text := section + `: {` + repeat(n, func(i int) string { return fmt.Sprintf(`"/%d": %s`, i, invalid) }) + `}`
			if strings.Contains(section, "components") {
				text += "}"
			}
			return document(f.openAPI(text))
		}},
		{"many values in a list", func(f *forger) []byte {
			item := f.pick("[]", "{}", "0", `{"":0}`, `{"a":{"b":0}}`, `""`, "[[[[[]]]]]", `"`+strings.Repeat("z", 1000)+`"`)
			list := "[" + repeat(f.size(8<<20), func(int) string { return item }) + "]"
			return document(f.pick(
				list,
				f.openAPI(pathsObject("")+`, "x-a": `+list),
				f.openAPI(pathsObject("")+`, "tags": `+list),
				f.openAPI(pathsObject("")+`, "components": {"examples": {"e": {"value": `+list+`}}}`),
			))
		}},
		{"nesting", func(f *forger) []byte {
			depth := f.size(5_000_000)
			return document(f.openAPI(f.pick(
				`"x-a": `+nested("[", depth, "", "]"),
				`"x-a": `+nested(`{"a":`, depth, "1", "}"),
				`"x-a": `+strings.Repeat("[", depth),
			)))
		}},
	}
}

// schemas returns families of schemas and of parts of operations.
func schemas() []family {
	return []family{
		{"alternatives in alternatives", func(f *forger) []byte {
			keyword, width := f.pick("allOf", "anyOf", "oneOf"), 1+f.IntN(3)
			var tree func(depth int) string
			remaining := f.size(300_000)
			tree = func(depth int) string {
				if remaining--; depth == 0 || remaining < 0 {
					return f.pick("1", `{"type": "x"}`, "{}", `{"$ref": 1}`)
				}
				return `{"` + keyword + `": [` + repeat(1+width, func(int) string { return tree(depth - 1) }) + `]}`
			}
			return document(f.openAPI(pathsObject("") + `, "components": {"schemas": {"a": ` + tree(1+f.IntN(50)) + `}}`))
		}},
		{"references", func(f *forger) []byte {
			n := f.size(100_000)
			target := f.pick("#/components/schemas/%d", "#/nowhere/%d", "#/"+strings.Repeat("a/", 200)+"%d",
				"#/components/schemas/0/allOf/0/allOf/%d")
			return document(f.openAPI(pathsObject("") + `, "components": {"schemas": {` +
				repeat(min(n, 19_000), func(i int) string {
					return fmt.Sprintf(`"%d": {"allOf": [{"$ref": "`+target+`"}, {"$ref": "`+target+`"}]}`, i, (i+1)%n, (i+7)%n)
				}) + `}}`))
		}},
		{"lists of distinct entries", func(f *forger) []byte {
			n := f.size(150_000)
			entry := func(i int) string { return fmt.Sprintf(`{"name": "%d", "in": "query", "schema": {}}`, i) }
			return document(f.openAPI(pathsObject(f.pick(
				`"/a": {"parameters": [`+repeat(n, entry)+`]}`,
				`"/a": {"get": {"tags": [`+repeat(n, strconv.Itoa)+`], "responses": {}}}`,
				`"/a": {"parameters": [{"content": {"a": {"schema": {"enum": [`+repeat(n, strconv.Itoa)+`]}}}}]}`,
			))))
		}},
		{"numbers", func(f *forger) []byte {
			number := f.pick("1e308", "-1e-308", "1e999999999", strings.Repeat("9", f.size(1_000_000)),
				"0."+strings.Repeat("0", 60)+"1")
			numbers := repeat(f.size(50_000), func(int) string { return number })
			return document(f.openAPI(pathsObject("") + `, "components": {"schemas": {"a": {"maxLength": ` + number +
				`, "minimum": ` + number + `, "multipleOf": ` + number + `, "enum": [` + numbers + `]}}}`))
		}},
		{"one object with many members", func(f *forger) []byte {
			n := f.size(500_000)
			return document(f.openAPI(f.pick(
				pathsObject(repeat(n, func(i int) string { return fmt.Sprintf(`"/%d": {}`, i) })),
				repeat(n, func(i int) string { return fmt.Sprintf(`"x-%d": 0`, i) }),
				pathsObject(repeat(n, func(int) string { return `"/same": {}` })),
			)))
		}},
		{"callbacks in callbacks", func(f *forger) []byte {
			inner := `{"responses": {}, "requestBody": {"content": {` + repeat(f.size(19_000), func(i int) string {
				return fmt.Sprintf(`"a%d": {"schema": %s}`, i, f.pick("{}", "1", "true"))
			}) + `}}}`
			return document(f.openAPI(pathsObject(`"/a": {"get": ` + nested(`{"responses": {}, "callbacks": {"a": {"b": {"get":`,
				f.IntN(30), inner, "}}}}") + `}`)))
		}},
		{"corrupted JSON", func(f *forger) []byte {
			text := []byte(f.openAPI(pathsObject(repeat(f.size(50_000), func(i int) string {
				return fmt.Sprintf(`"/%d": {"get": {"responses": {}}}`, i)
			}))))
			for range 1 + f.IntN(5) {
				text[f.IntN(len(text))] = byte(f.IntN(256))
			}
			return document(string(text[:f.IntN(len(text))]))
		}},
	}
}

// projects returns families of routes, policies and settings.
func projects() []family {
	return []family{
		{"many references to variables", func(f *forger) []byte {
			text := strings.Repeat(f.pick("$env(V1)", "$env(V1) ", "${env.V1}", "$env(NONE)", "$env(V1", "${e(env.V2)}"),
				f.size(1_000_000))
			options := f.pick(`{"baseUrl": "https://x/`+text+`"}`, `{"baseUrl": "`+text+`"}`,
				`{"x": ["`+strings.Join(strings.SplitAfter(text, ")"), `","`)+`"]}`)
			return document(f.openAPI(pathsObject(repeat(f.size(500), func(i int) string {
				return fmt.Sprintf(`"/%d": %s`, i, route(options, ""))
			}))))
		}},
		{"large options", func(f *forger) []byte {
			options := f.pick(`{"baseUrl": "https://x/`+strings.Repeat("<", f.size(64<<10))+`"}`,
				`{`+repeat(f.size(30_000), func(i int) string { return fmt.Sprintf(`"o%d": 1`, i) })+`}`,
				`{"baseUrl": [`+repeat(f.size(30_000), strconv.Itoa)+`]}`,
				`{"baseUrl": "https://x/`+strings.Repeat("${params.a}", f.size(1_400))+`"}`,
				`{"baseUrl": "https://x/`+strings.Repeat("${", f.size(8_000))+`"}`)
			more := f.pick("", `, "mcp": {"type": "tool", "_meta": {"a": [`+repeat(f.size(30_000), strconv.Itoa)+`]}}`)
			return document(f.openAPI(pathsObject(repeat(f.size(14_000), func(i int) string {
				return fmt.Sprintf(`"/%d": %s`, i, route(options, more))
			}))))
		}},
		{"many routes", func(f *forger) []byte {
			path := f.pick("/%d", "/{a}/%d", "/{a}-%d-{b}", "/a/{b}.{c}~%d", "/%%%d", "/{x%d}", "/same")
			return document(f.openAPI(pathsObject(repeat(f.size(40_000), func(i int) string {
				return `"` + strings.ReplaceAll(fmt.Sprintf(path, i), "%!(EXTRA", "") + `": ` + route(plainOptions, "")
			}))))
		}},
		{"URL patterns", func(f *forger) []byte {
			pattern := f.pick("/("+strings.Repeat("a?", f.size(20_000))+")%d", strings.Repeat("/(a{1000})", f.size(100))+"%d",
				"/((?:a{30}){30})%d", "/(.{0,900}x)%d",
				"/((?:"+strings.Repeat("a|", f.size(400))+")+)%d", "/%d/*", "/:a%d", strings.Repeat("{/:b}?", f.size(150))+"/%d",
				"/([^\\\\pL\\\\pN]{500})%d", strings.Repeat("(", f.size(900))+"%d")
			return document(f.openAPI(pathsObject(repeat(f.size(3_000), func(i int) string {
				options := f.pick(plainOptions, `{"baseUrl": "https://x/`+strings.Repeat("${params.a}", f.size(1_400))+`"}`)
				return `"` + fmt.Sprintf(pattern, i) + `": ` +
					strings.Replace(route(options, ""), "{", `{"x-gateway-path": {"pathMode": "url-pattern"}, `, 1)
			}))))
		}},
		{"policies", func(f *forger) []byte {
			options := f.pick("{}", `{"bucketName": "$env(V3)"}`, `{`+repeat(f.size(3_000), func(i int) string {
				return fmt.Sprintf(`"o%d": "$env(NONE%d)"`, i, i)
			})+`}`)
			policies := repeat(f.size(20_000), func(i int) string {
				return fmt.Sprintf(`{"name": "p%d", "policyType": "api-key-inbound", `+
					`"handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": %s}}`,
					i%(1+f.IntN(1+i)), options)
			})
			origins := repeat(f.size(100_000), func(i int) string {
				return f.pick(`"https://*.example.com"`, `"$env(V4)"`, `"x"`, "1")
			})
			inbound := repeat(f.size(150), func(i int) string { return fmt.Sprintf(`"p%d"`, i) })
			return packFiles(
				"config/routes.oas.json",
				f.openAPI(pathsObject(`"/": `+route(plainOptions, `, "policies": {"inbound": [`+inbound+`]}`))),
				"config/policies.json", `{"policies": [`+policies+`], "corsPolicies": [{"name": "a", "allowedOrigins": [`+
					origins+`]}]}`,
			)
		}},
		{"settings", func(f *forger) []byte {
			comment := f.pick("// "+strings.Repeat("x", f.size(1<<20))+"\n", "/*"+strings.Repeat(" ", f.size(20<<20))+"*/",
				strings.Repeat("[", f.size(1<<20)), strings.Repeat(", \n", f.size(1<<20)))
			routes := f.openAPI(pathsObject(`"/": ` + route(plainOptions, "")))
			unknown := repeat(f.size(100_000), func(i int) string { return fmt.Sprintf(`"unknown%d": %d`, i, i) })
			return packFiles(
				"config/routes.oas.json", routes,
				"gatewright.jsonc", comment+`{"version": 1, `+unknown+`}`,
			)
		}},
		{"many documents", func(f *forger) []byte {
			var files []string
			lists := repeat(f.size(20_000), func(int) string { return "[]" })
			text := f.openAPI(pathsObject(`"/": ` + route(plainOptions, "") + `, "x-a": [` + lists + `]`))
			for i := range f.size(3_000) {
				files = append(files, fmt.Sprintf("config/%d.oas.json", i), text)
			}
			return packFiles(files...)
		}},
	}
}

// archives returns families of tar and gzip.
func archives() []family {
	return []family{
		{"headers of tar", func(f *forger) []byte {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, flate.BestSpeed)
			w := tar.NewWriter(z)
			kinds := []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeXGlobalHeader}
			kind, long := kinds[f.IntN(len(kinds))], f.size(500_000)
			for i := range f.size(25_000) {
				h := &tar.Header{
					Name:     fmt.Sprintf("%s%d", strings.Repeat(f.pick("a", "a/", "../", "é"), f.IntN(200)), i),
					Typeflag: kind, Mode: 0o600, Linkname: "x", Format: tar.FormatPAX,
				}
				h.PAXRecords = map[string]string{"GATEWRIGHT.x": strings.Repeat(f.pick("x", "y"), long)}
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
			return packFiles(files...)
		}},
		{"decompression bombs", func(f *forger) []byte {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, flate.BestSpeed)
			w := tar.NewWriter(z)
			size := int64(f.size(600 << 20))
			_ = w.WriteHeader(&tar.Header{
				Name: f.pick("zeros", "config/routes.oas.json"), Typeflag: tar.TypeReg, Mode: 0o600, Size: size,
			})
			zeros := make([]byte, 1<<20)
			for remaining := size; remaining > 0; remaining -= int64(len(zeros)) {
				_, _ = w.Write(zeros[:min(remaining, int64(len(zeros)))])
			}
			_ = w.Close()
			_ = z.Close()
			if f.IntN(2) == 0 {
				return packFiles("config/routes.oas.json", string(b.Bytes()[:min(b.Len(), 20<<20)]))
			}
			return b.Bytes()
		}},
		{"empty gzip blocks", func(f *forger) []byte { return emptyGzip(f.IntN(3), f.size(8<<20)) }},
		{"concatenated and corrupted archives", func(f *forger) []byte {
			valid := document(f.openAPI(pathsObject(`"/": ` + route(plainOptions, ""))))
			switch f.IntN(4) {
			case 0:
				return append(valid, bytes.Repeat(valid, f.size(2_000))...)
			case 1:
				return packFiles("x", string(valid))[:f.IntN(100)]
			case 2:
				for range 1 + f.IntN(4) {
					valid[f.IntN(len(valid))] ^= byte(1 << f.IntN(8))
				}
				return valid
			default:
				noise := make([]byte, f.size(4<<20))
				for i := range noise {
					noise[i] = byte(f.Uint32())
				}
				return append([]byte{0x1f, 0x8b, 8, byte(f.IntN(32))}, noise...)
			}
		}},
		{"sparse files", func(f *forger) []byte {
			claimed := f.pick("1", "25165824", "536870912", "9223372036854775807", strconv.Itoa(f.size(25<<20)))
			return sparse(claimed, f.size(5_000))
		}},
	}
}

// emptyGzip returns a gzip stream that contains many parts without output, by
// kind: empty members, empty stored blocks, or empty blocks with dynamic codes.
func emptyGzip(kind, size int) []byte {
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
	// A block with dynamic codes: of 257 literal codes, only the
	// end of the block has a code, and there is one distance code.
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
			put(map[int]uint64{2: 1, 17: 1}[i], 3) // the lengths of the codes 18 and 1
		}
		put(1, 1)
		put(138-11, 7) // 138 zeros
		put(1, 1)
		put(118-11, 7) // 118 more
		put(0, 1)      // the code of the end has one bit
		put(0, 1)      // and so has the code of the distance
		put(0, 1)      // the end of the block
	}
	put(0, 7)
	out.Write(end)
	return out.Bytes()
}

// sparse returns an archive with a sparse file that has many holes and a claimed size, in the PAX format of GNU tar.
func sparse(claimedSize string, entries int) []byte {
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
	for _, kv := range []string{
		"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=config/routes.oas.json",
		"GNU.sparse.realsize=" + claimedSize,
	} {
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
