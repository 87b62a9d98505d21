package project

import "strings"

// warnShadowedPatterns warns about URL patterns that no request reaches because an earlier pattern
// matches all their paths. A request belongs to the first pattern that matches, regardless of methods.
// The check considers only earlier patterns that consist of plain text and "/*", as most catch-alls do.
func (c *compiler) warnShadowedPatterns() {
	var catchAlls []*Route // routes whose patterns end in "/*"
	for i := range c.artifact.Routes {
		r := &c.artifact.Routes[i]
		if r.PathMode != URLPattern {
			continue
		}
		for _, o := range catchAlls {
			if o.Path != r.Path && strings.HasPrefix(r.Path, strings.TrimSuffix(o.Path, "*")) {
				c.warn(r.Source.File, r.Source.Pointer, "This route is never reached: %s in %s comes before it and matches all "+
					"its paths, whatever the method. Declare this one first.", quote(o.Path), o.Source.File)
				break
			}
		}
		if text, isCatchAll := strings.CutSuffix(r.Path, "/*"); isCatchAll && !strings.ContainsAny(text, `:*?+({\`) {
			catchAlls = append(catchAlls, r)
		}
	}
}
