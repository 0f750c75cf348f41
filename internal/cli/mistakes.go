package cli

import "regexp"

// parserTexts are messages of the parser with their replacements.
var parserTexts = []struct {
	text  *regexp.Regexp
	shown string
}{
	{regexp.MustCompile(`^(--[\w-]+): (?:expected \S+ value but got "EOL" \(<EOL>\)|missing value, expecting .*)$`), `$1 needs a value`},
	{regexp.MustCompile(`^(--[\w-]+): expected \S+ value but got "(.*)" \((?:short|long) flag\).*$`), `$1 needs a value, and "$2" reads as a flag; write $1="$2" if it is the value`},
	{regexp.MustCompile(`^(--[\w-]+): expected (?:an int|a valid \d+ bit int) but got (".*?")(?: \(\w+\))?$`), `$1: $2 is not a whole number`},
	{regexp.MustCompile(`^(--[\w-]+): expected a valid \d+ bit uint but got (".*")$`), `$1: $2 is not a whole number of 0 or more`},
	{regexp.MustCompile(`^(--[\w-]+): expected a float but got (".*") \(\w+\)$`), `$1: $2 is not a number`},
	{regexp.MustCompile(`^(--tenant-weights): invalid map value (".*")$`), `$1: $2 is not a weight: give TENANT=N with N from 1 to 1000; for example --tenant-weights acme=2`},
	{regexp.MustCompile(`^(--[\w-]+): expected duration but got ("[^"]*").*$`), `$1: $2 is not a duration such as 500ms, 90s or 2h`},
}

// rewriteParserText replaces a message of the parser by one for users of the command
// line.
func rewriteParserText(message string) string {
	for _, t := range parserTexts {
		if t.text.MatchString(message) {
			return t.text.ReplaceAllString(message, t.shown)
		}
	}
	return message
}
