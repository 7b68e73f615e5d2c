// The filter of the events: what its words ask of an event, and what is wrong with them.

/// The number of an event that a field of the filter compares; nothing if the event has none.
const NUMBER_FIELDS = {
  event: (event) => events.id[event],
  record: (event) => known((isTimed ? events.replayed_record : events.id)[event]),
  submission: (event) => events.submission[event],
  command_buffer: (event) => events.command_buffer[event],
  command: (event) => known(events.command[event]),
  function: (event) => activity.functions[events.function[event]]?.ordinal,
  executable: (event) => activity.functions[events.function[event]]?.executable,
  device: (event) => tracks[events.track[event]].device,
};
/// The texts in which a field of the filter searches, and the index of an event's text.
const TEXT_FIELDS = {
  name: { texts: names, of: (event) => events.name[event] },
  track: { texts: tracks.map((track) => track.label), of: (event) => events.track[event] },
};
const FILTER_FIELDS = [...Object.keys(TEXT_FIELDS), ...Object.keys(NUMBER_FIELDS)];

const known = (ordinal) => (ordinal === NONE ? undefined : ordinal);

/// The words of a filter: each has a text, and may have a field, `:` or `=` behind it, and quotes, which the end of the filter
/// closes: it is applied while it is typed.
function filterWords(text) {
  const pattern = /(?:(?<field>\w+)(?<operator>[:=]))?"(?<quoted>(?:[^"\\]|\\.|\\$)*)(?:"|$)|(?<plain>\S+)/gs;
  return [...text.toLowerCase().matchAll(pattern)].map(({ groups: { field, operator, quoted, plain } }) => {
    if (quoted !== undefined) return { field, operator, value: quoted.replace(/\\(["\\])/g, "$1"), isQuoted: true };
    // `::` is a part of names, and so is `=` unless a field is before it.
    const parts = plain.match(/^(\w+)(?::(?!:)|=)(.*)$/s);
    const splits = parts && (plain[parts[1].length] === ":" || FILTER_FIELDS.includes(parts[1]));
    if (!splits) return { value: plain };
    return { field: parts[1], operator: plain[parts[1].length], value: parts[2] };
  });
}

/// Whether a text matches: `=` compares, `:` searches. A `*` stands for any text, except in quotes.
function textTest({ operator, value, isQuoted }) {
  if (operator === "=") return (text) => text === value;
  if (isQuoted || !value.includes("*")) return (text) => text.includes(value);
  // Parts in their order, the first and the last at the ends: without the backtracking of a regular expression.
  const parts = value.split("*");
  const [first, last] = [parts.shift(), parts.pop()];
  return (text) => {
    if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;
    let at = first.length;
    for (const part of parts) {
      at = text.indexOf(part, at);
      if (at < 0) return false;
      at += part.length;
    }
    return at <= text.length - last.length;
  };
}

/// The test of a word, or the problem with it.
function wordTest(word) {
  const { field, value } = word;
  // Names and tracks are few, events are many.
  const search = ({ texts, of }) => {
    const test = textTest(word);
    const matching = texts.map((text) => test(text.toLowerCase()));
    return (event) => matching[of(event)];
  };
  if (field === undefined) {
    const [inName, inTrack] = [search(TEXT_FIELDS.name), search(TEXT_FIELDS.track)];
    return { test: (event) => inName(event) || inTrack(event) };
  }
  if (Object.hasOwn(TEXT_FIELDS, field)) return { test: search(TEXT_FIELDS[field]) };
  if (!Object.hasOwn(NUMBER_FIELDS, field)) {
    return { problem: `There is no field “${field}”. Fields: ${FILTER_FIELDS.join(", ")}. Text with a colon needs quotes.` };
  }
  if (!/^\d+$/.test(value)) return { problem: `The field “${field}” needs a number, such as ${field}:3.` };
  const number = String(BigInt(value));
  return { test: (event) => String(NUMBER_FIELDS[field](event)) === number };
}

/// Whether an event matches all words of a filter, and what is wrong with those that none can match.
function parseFilter(text) {
  const words = filterWords(text).map(wordTest);
  const problems = [...new Set(words.map((word) => word.problem).filter(Boolean))];
  return { problems, matches: (event) => problems.length === 0 && words.every((word) => word.test(event)) };
}
