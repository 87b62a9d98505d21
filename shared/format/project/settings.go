package project

import (
	"time"
)

// settings are the settings of gatewright.jsonc that affect the build.
type settings struct {
	allowDuplicateRoutes bool
	// preservePaths reports whether the setting pathNormalisation is "preserve" (contract, section 9).
	preservePaths bool
	// enforceSecurity reports whether the setting security is "enforced": then an operation that is open although its
	// description requires authentication is an error.
	enforceSecurity bool
}

// enforcedSecurity is the value of the setting security that makes an error of an operation whose security requirement
// is not enforced. The other value, "reported", is the default: then the build warns.
const enforcedSecurity = "enforced"

// latestCompatibilityDate is the latest compatibility date that this release knows. No
// change of behavior depends on the date yet, so all earlier dates have the same effect.
const latestCompatibilityDate = "2026-11-22"

// readSettings reads gatewright.jsonc. The file is optional.
func (c *compiler) readSettings() settings {
	data, has := c.files[settingsFile]
	if !has {
		return settings{}
	}
	doc := c.parse(settingsFile, data)
	if doc == nil {
		c.unreadable[settingsFile] = true
		return settings{}
	}
	c.forbidEnv(settingsFile, nil, doc.root, func([]string) bool { return false })
	root, _ := doc.root.(map[string]any)
	allowDuplicates, readable := root["allowDuplicateRoutes"].(bool)
	if !check(&c.report, settingsFile, "", c.schemas.settings, doc.root) {
		// The mistake in the settings is reported already. Routes must not report it again.
		c.unreadable[settingsFile] = root == nil || root["allowDuplicateRoutes"] != nil && !readable
		return settings{allowDuplicateRoutes: allowDuplicates}
	}
	for name := range root {
		switch name {
		case "$schema", "version", "compatibilityDate", "projectType", "allowDuplicateRoutes", "allowHostHeaderOverride",
			"devPortal", "pathNormalisation", "security":
		default:
			c.warn(settingsFile, pointer(name), "This setting is not known and has no effect. Correct its name or remove it.")
		}
	}
	if date, ok := root["compatibilityDate"].(string); ok {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			c.fail(settingsFile, "/compatibilityDate", "There is no such day. Write a date such as 2026-01-31.")
		} else if date > latestCompatibilityDate {
			c.warn(settingsFile, "/compatibilityDate", "This gateway knows no behaviour later than that of %s, and serves the "+
				"project with that. Write that date, or deploy to a newer gateway.", latestCompatibilityDate)
		}
	}
	return settings{
		allowDuplicateRoutes: allowDuplicates,
		preservePaths:        root["pathNormalisation"] == PreservePaths,
		enforceSecurity:      root["security"] == enforcedSecurity,
	}
}
