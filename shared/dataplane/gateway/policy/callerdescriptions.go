package policy

// callerDescriptions returns the descriptions of the types that check passwords and signatures, and count what callers do.
func callerDescriptions() map[string]description {
	return map[string]description{
		basicAuthType: {
			"Admits requests with the name and the password of a user (HTTP Basic).", map[string]string{
				"allowUnauthenticatedRequests": "lets requests without a valid password through, without a user",
				"users":                        "the users",
				"users.name":                   "the name, which becomes the user's `sub`. It has no colon",
				"users.passwordHash":           "the hash of the password, by bcrypt or argon2id",
				"realm":                        "what browsers show when they ask for the password",
				"maxFailuresPerMinute":         "the number of wrong passwords from an address before it gets 429 for a minute",
			},
		},
	}
}
