internal import Wire

/// The JavaScript that stands between Divan and an author's function, in the function's own context.
///
/// An author may change every builtin of the context, and may do so by accident: a document's key
/// `toString` is enough. Therefore the harness keeps the builtins that it needs from before, calls
/// them directly, and neither iterates, nor spreads, nor stores into arrays, which all look up
/// properties that an author can define.
///
/// It speaks with Swift by the results of its functions and by `cells`, numbers in memory that both
/// see (`HarnessCells`):
///
/// - `run` calls the author's function for some items; `results` returns what they produced since
///   the last call, as lines of item, key and value (map) or item and value (reduce).
/// - Keys and values become JSON text in `emit`, because an author may emit one object many times
///   and change it in between. JSON text has no control characters, so tabs and line feeds divide.
/// - What an item emitted counts only when its function has returned.
/// - It is strict code, so that `arguments.callee.caller` does not lead an author into it.
enum Harness {
    /// The name of the author's text in stack traces.
    static let authorName = "view.js"

    /// The harness's third argument, as JSON; the fourth is the text of a sync function's library, or empty.
    ///
    /// Here lengths are in UTF-16 units, which are at most as many as the bytes: `BatchExecution`
    /// counts the bytes.
    static let limits = """
        {"key": \(ScriptLimits.keyBytesMax), "rows": \(ScriptLimits.rowsMax),
        "emitted": \(ScriptLimits.emittedBytesMax), "reduction": \(ScriptLimits.reductionBytesMax),
        "notes": \(ScriptLimits.logLinesMax), "text": \(ScriptLimits.textBytesMax),
        "piece": \(ScriptLimits.pieceBytes)}
        """

    /// The harness of a use: its part stands between the two that all have.
    static func source(for use: ScriptUse) -> String {
        first + (use == .sync ? SyncHarness.source : ViewHarness.source) + last
    }

    private static let first = #"""
        (function (cells, isReduce, limits, library) {
          'use strict';
          const global = globalThis;
          const ownKeys = Reflect.ownKeys;
          const construct = Reflect.construct;
          const deleteProperty = Reflect.deleteProperty;
          const defineProperty = Reflect.defineProperty;
          const create = Object.create;
          const stringify = JSON.stringify;
          const floor = Math.floor;
          const imul = Math.imul;
          const PlainDate = Date;
          const FailureType = Error;
          const bind = Function.prototype.call.bind(Function.prototype.bind);
          const uncurry = function (method) { return bind(Function.prototype.call, method); };
          const charCodeAt = uncurry(String.prototype.charCodeAt);
          const slice = uncurry(String.prototype.slice);
          const dateText = uncurry(Date.prototype.toString);

          // The numbers of `HarnessCells`.
          const ITEM = 0, NEXT = 1, REASON = 2, LINE = 3, NOTES = 4, DROPPED = 5, DIRTY = 6,
            STAMPS = 8;
          const NO_ITEM = 0xffffffff;

          const kept = create(null);
          const keptNames = ['Object', 'Function', 'Array', 'String', 'Boolean', 'Number', 'BigInt',
            'Symbol', 'Date', 'Math', 'JSON', 'RegExp', 'Map', 'Set', 'WeakMap', 'WeakSet',
            'Promise', 'Proxy', 'Reflect', 'Iterator', 'Error', 'EvalError', 'RangeError',
            'ReferenceError', 'SyntaxError', 'TypeError', 'URIError', 'AggregateError', 'eval',
            'parseInt', 'parseFloat', 'isNaN', 'isFinite', 'decodeURI', 'decodeURIComponent',
            'encodeURI', 'encodeURIComponent', 'escape', 'unescape', 'NaN', 'Infinity',
            'undefined', 'globalThis'];
          for (let i = 0; i < keptNames.length; i += 1) kept[keptNames[i]] = true;
          // The memory of ArrayBuffer and WebAssembly escapes the limits; WeakRef shows when the
          // collector runs; the rest is of no use here.
          const present = ownKeys(global);
          for (let i = 0; i < present.length; i += 1) {
            if (kept[present[i]] !== true) deleteProperty(global, present[i]);
          }

          let user, item = -1, isActive = false, meta;
          let output = '', pending = '', rows = 0, units = 0, reason = 0;
          let problem = '', trace = '';
          let notes = 0, firstNote = null, lastNote = null;
          let isSeeded = false, a = 0, b = 0, c = 0, d = 0;

          function jsonText(value) {
            if (value === null) return 'null';
            switch (typeof value) {
            case 'number': return value - value === 0 ? '' + value : 'null';
            case 'boolean': return value ? 'true' : 'false';
            case 'undefined': return 'null';
            }
            const text = stringify(value);
            return typeof text === 'string' ? text : 'null';
          }

          function exceed(code, text) {
            const failure = new FailureType(text);
            // The first one counts, also if the author catches it.
            if (reason === 0) {
              reason = code;
              pending = '';
              describe(failure);
            }
            throw failure;
          }

          // Adds a row to those of the item.
          function add(key, value) {
            rows += 1;
            units += key.length + value.length;
            if (rows > limits.rows || units > limits.emitted) {
              exceed(4, 'Too much is emitted for one document.');
            }
            pending += item + '\t' + key + '\t' + value + '\n';
          }

          // Refuses a call that an author's function keeps for later, or makes beyond its limits.
          function check(name) {
            if (!isActive) throw new FailureType(name + ' works only until the function returns.');
            if (reason !== 0) throw new FailureType('The limits of this document are exceeded.');
          }

          function log(value) {
            if (notes >= limits.notes) {
              cells[DROPPED] += 1;
              return;
            }
            const text = typeof value === 'string' ? value : jsonText(value);
            const note = { text: slice(text, 0, limits.text), next: null };
            if (firstNote === null) firstNote = note;
            else lastNote.next = note;
            lastNote = note;
            notes += 1;
            cells[NOTES] += 1;
          }

          function note() {
            const first = firstNote;
            if (first === null) return '';
            firstNote = first.next;
            cells[NOTES] -= 1;
            return first.text;
          }

          // Keeps the text, the trace and the line of an exception, by all that an author may throw.
          function describe(error) {
            problem = 'An exception that has no text.';
            trace = '';
            cells[LINE] = 0;
            try {
              if (typeof error === 'object' && error !== null) {
                const name = error.name;
                const message = error.message;
                const stack = error.stack;
                const line = error.line;
                if (typeof line === 'number') cells[LINE] = line;
                if (typeof stack === 'string') trace = slice(stack, 0, 4096);
                if (typeof message === 'string' && typeof name === 'string') {
                  problem = slice(name + ': ' + message, 0, limits.text);
                } else {
                  problem = slice(jsonText(error), 0, limits.text);
                }
              } else if (typeof error === 'symbol') {
                problem = 'A symbol.';
              } else {
                problem = slice('' + error, 0, limits.text);
              }
            } catch (another) {}
          }

          function run(items, from, to, base, isRereduce) {
            for (let i = from; i < to; i += 1) {
              if (!prepare()) {
                cells[NEXT] = i;
                cells[DIRTY] = 1;
                break;
              }
              cells[ITEM] = item = base + i;
              cells[NEXT] = i + 1;
              meta = items[2 * i];
              pending = '';
              rows = 0;
              units = 0;
              reason = 0;
              isSeeded = false;
              isActive = true;
              try {
                call(items[2 * i + 1], isRereduce);
              } catch (error) {
                if (reason === 0) refuse(error);
              }
              isActive = false;
              if (reason !== 0) {
                cells[REASON] = reason;
                break;
              }
              if (rows !== 0) output += pending;
              if (output.length > limits.piece) break;
            }
            // The jobs of promises follow: they belong to none of the items.
            cells[ITEM] = NO_ITEM;
          }

          function results() {
            const text = output;
            output = '';
            pending = '';
            meta = undefined;
            isActive = false;
            return text;
          }

          // The time of an item is when its document was changed, and random numbers follow from the
          // document: all copies of it have the same rows.
          function now() {
            if (isReduce) {
              throw new FailureType('A reduce function has no current time: the same rows must ' +
                'always have the same reduction.');
            }
            if (!isActive) throw new FailureType('There is no current time outside the function.');
            const place = STAMPS + 2 * item;
            return floor((cells[place] * 4294967296 + cells[place + 1]) / 1e6);
          }

          function mix() {
            const t = (a + b | 0) + d | 0;
            d = d + 1 | 0;
            a = b ^ b >>> 9;
            b = c + (c << 3) | 0;
            c = (c << 21 | c >>> 11) + t | 0;
            return t >>> 0;
          }

          function random() {
            if (isReduce) {
              throw new FailureType('A reduce function has no random numbers: the same rows must ' +
                'always have the same reduction.');
            }
            if (!isActive) throw new FailureType('Math.random works only inside the function.');
            if (!isSeeded) {
              const id = seedText();
              let hash = 0x811c9dc5 | 0;
              if (typeof id === 'string') {
                for (let i = 0; i < id.length; i += 1) {
                  hash = imul(hash ^ charCodeAt(id, i), 0x01000193);
                }
              }
              a = hash;
              b = cells[STAMPS + 2 * item] | 0;
              c = cells[STAMPS + 2 * item + 1] | 0;
              d = 1;
              isSeeded = true;
              for (let i = 0; i < 12; i += 1) mix();
            }
            return ((mix() >>> 5) * 67108864 + (mix() >>> 6)) / 9007199254740992;
          }

          const ViewDate = function Date(...parts) {
            if (new.target === undefined) return dateText(construct(PlainDate, [now()]));
            return construct(PlainDate, parts.length === 0 ? [now()] : parts, new.target);
          };
          function define(object, name, value) {
            defineProperty(object, name, {
              __proto__: null, value, writable: true, enumerable: false, configurable: true
            });
          }
          ViewDate.prototype = PlainDate.prototype;
          define(PlainDate.prototype, 'constructor', ViewDate);
          define(ViewDate, 'length', 7);
          define(ViewDate, 'now', function () { return now(); });
          define(ViewDate, 'parse', PlainDate.parse);
          define(ViewDate, 'UTC', PlainDate.UTC);
          define(global, 'Date', ViewDate);
          define(Math, 'random', function () { return random(); });
        """#

    private static let last = #"""

          let names, count = 0;
          const values = create(null);

          // Returns whether the value is what the use needs.
          function install(value) {
            if (!accept(value)) return false;
            names = ownKeys(global);
            count = names.length;
            for (let i = 0; i < count; i += 1) values[names[i]] = { value: global[names[i]] };
            noteBuiltins();
            return true;
          }

          // Makes the global object as it was after `install`; returns whether that worked.
          function sweep() {
            let isClean = true;
            notes = 0;
            for (let i = 0; i < count; i += 1) {
              const name = names[i];
              const value = values[name].value;
              const current = global[name];
              if (current === value || value !== value && current !== current) continue;
              define(global, name, value);
              if (global[name] !== value) isClean = false;
            }
            const found = ownKeys(global);
            if (found.length !== count) {
              for (let i = 0; i < found.length; i += 1) {
                if (values[found[i]] === undefined && !deleteProperty(global, found[i])) {
                  isClean = false;
                }
              }
            }
            return isClean;
          }

          return {
            run, results, note, install, sweep, describe,
            problem: function () { return problem; },
            trace: function () { return trace; }
          };
        })
        """#
}

/// The part of the harness that map and reduce functions of views have.
enum ViewHarness {
    static let source = #"""

          function emit(key, value) {
            check('emit');
            const k = jsonText(key);
            const v = jsonText(value);
            if (k.length > limits.key) exceed(3, 'The key is too long.');
            add(k, v);
          }

          function prepare() { return true; }

          function call(value, isRereduce) {
            if (!isReduce) return user(value, meta);
            const text = jsonText(user(meta, value, isRereduce));
            if (text.length > limits.reduction) exceed(5, 'The reduction is too long.');
            pending = item + '\t' + text + '\n';
            rows = 1;
          }

          function refuse(error) {
            describe(error);
            reason = 1;
          }

          function noteBuiltins() {}

          function seedText() {
            return typeof meta === 'object' && meta !== null ? meta.id : '';
          }

          function accept(value) {
            user = value;
            return true;
          }

          function sum(values) {
            let total = 0;
            for (let i = 0; i < values.length; i += 1) total += values[i];
            return total;
          }

          function dateToArray(value) {
            const date = typeof value === 'object' && value !== null &&
              typeof value.getUTCFullYear === 'function' ? value : new ViewDate(value);
            return date - date === 0 ? [date.getUTCFullYear(), date.getUTCMonth() + 1,
              date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
              : null;
          }

          const digits = create(null);
          const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
          for (let i = 0; i < 64; i += 1) digits[alphabet[i]] = i;

          function decodeBase64(text) {
            if (typeof text !== 'string') {
              throw new FailureType('decodeBase64 needs a string.');
            }
            const bytes = [];
            let bits = 0, held = 0, end = text.length;
            if (end % 4 !== 0) {
              throw new FailureType('The length of a base64 string is a multiple of four.');
            }
            while (end > text.length - 2 && end > 0 && text[end - 1] === '=') end -= 1;
            for (let i = 0; i < end; i += 1) {
              const digit = digits[text[i]];
              if (digit === undefined) {
                throw new FailureType('A character that base64 does not have.');
              }
              bits = (bits << 6 | digit) & 0xffff;
              held += 6;
              if (held >= 8) {
                held -= 8;
                define(bytes, bytes.length, bits >> held & 255);
              }
            }
            return bytes;
          }

          if (!isReduce) define(global, 'emit', emit);
          define(global, 'sum', sum);
          define(global, 'log', log);
          define(global, 'dateToArray', dateToArray);
          define(global, 'decodeBase64', decodeBase64);


        """#
}
