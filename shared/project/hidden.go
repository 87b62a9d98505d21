package project

import "strings"

// warnOfHidden tells which URL patterns are never reached, since one that is
// declared before them takes all their paths: a request belongs to the first
// pattern that matches, whatever its methods. It knows those that end in "/*"
// behind plain text, which is how most catch-alls are written.
func (c *compiler) warnOfHidden() {
	var open []*Route // the first route of each such pattern
	for i := range c.artifact.Routes {
		r := &c.artifact.Routes[i]
		if r.PathMode != URLPattern {
			continue
		}
		for _, o := range open {
			if o.Path != r.Path && strings.HasPrefix(r.Path, strings.TrimSuffix(o.Path, "*")) {
				c.warn(r.Source.File, r.Source.Pointer, "This route is never reached: %s in %s comes before it and matches all its paths, whatever the method. Declare this one first.", quote(o.Path), o.Source.File)
				break
			}
		}
		if text, all := strings.CutSuffix(r.Path, "/*"); all && !strings.ContainsAny(text, `:*?+({\`) {
			open = append(open, r)
		}
	}
}
