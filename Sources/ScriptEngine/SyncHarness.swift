/// The part of the harness that sync functions of a gateway have.
///
/// It only records what a function calls, as rows: `["channel", [names]]`, `access` and `role` with two
/// arguments, `expiry`, `reject` and the four claims. The gateway decides the claims, because it knows the
/// user (`SyncDecision`); a function whose claim fails runs on, and its later rows do not count.
///
/// An exception is a row too, the last one: `forbidden` or `unauthorized` with the reason, or `exception`
/// with text and line. So claims before an exception are decided first, as in Sync Gateway.
///
/// No state survives a document, because documents come from devices, and one may name members such as
/// `__proto__`, `constructor`, which an innocent function then stores into:
///
/// - Before each document, globals become what they were, and the function is made anew from its source,
///   so that variables around it and properties of it are new.
/// - All objects of the language are compared with what they were; if one differs, the host makes a new
///   context. They are not frozen: then assignments to `counts["constructor"]` would be lost in silence.
/// - Assignment can only change values and add enumerable properties, which is quick to compare: by functions
///   that name each property, because the engine remembers where a named property is. Functions that can do
///   more (`Object.defineProperty`) leave a mark, and then every descriptor is compared.
/// - Methods are frozen, since most objects are methods and nothing needs members of them.
/// - A library is evaluated once for a context. Variables inside of it survive: the counter of underscore's
///   `uniqueId` is the only one.
enum SyncHarness {
    static let source = #"""

          const apply = Reflect.apply;
          const getPrototypeOf = Object.getPrototypeOf;
          const descriptorOf = Object.getOwnPropertyDescriptor;
          const isExtensible = Object.isExtensible;
          const isFrozen = Object.isFrozen;
          const freeze = Object.freeze;
          const hasOwn = Object.hasOwn;
          const evaluate = eval;
          const noMatch = /(?:)/;
          const match = uncurry(RegExp.prototype.exec);
          let isMarked = false, isNew = false, make;

          function watch(object, name) {
            const method = object[name];
            define(object, name, { [name](...parts) {
              isMarked = true;
              return apply(method, this, parts);
            } }[name]);
          }
          watch(Object, 'defineProperty');
          watch(Object, 'defineProperties');
          watch(Object, 'freeze');
          watch(Object, 'seal');
          watch(Object, 'preventExtensions');
          watch(Object.prototype, '__defineGetter__');
          watch(Object.prototype, '__defineSetter__');
          watch(Reflect, 'defineProperty');
          watch(Reflect, 'preventExtensions');

          function record(kind, value) {
            check(kind);
            add('"' + kind + '"', jsonText(value));
          }
          define(global, 'channel', (...names) => { record('channel', names); });
          define(global, 'access', (users, channels) => {
            record('access', [users, channels]);
          });
          define(global, 'role', (users, roles) => { record('role', [users, roles]); });
          define(global, 'expiry', (value) => { record('expiry', value); });
          define(global, 'reject', (status, reason) => { record('reject', [status, reason]); });
          define(global, 'requireUser', (names) => { record('requireUser', names); });
          define(global, 'requireRole', (names) => { record('requireRole', names); });
          define(global, 'requireAccess', (names) => {
            record('requireAccess', names);
          });
          define(global, 'requireAdmin', () => { record('requireAdmin', null); });
          define(global, 'log', log);

          // All objects of the language and of the library but methods, which are frozen. The author's text is
          // evaluated later, so the builtins may be used as they are.
          const objects = (function () {
            const found = new Set();
            function visit(value) {
              const isObject = typeof value === 'object' && value !== null;
              if (!isObject && typeof value !== 'function' || value === global) return;
              if (found.has(value)) return;
              found.add(value);
              visit(getPrototypeOf(value));
              for (const key of ownKeys(value)) {
                const property = descriptorOf(value, key);
                visit(property.value);
                visit(property.get);
                visit(property.set);
              }
            }
            function visitGlobals() {
              for (const name of ownKeys(global)) visit(descriptorOf(global, name).value);
            }
            visitGlobals();
            const samples = [function* () {}, async function () {}, async function* () {},
              [].values(), new Map().values(), new Set().values(), ''[Symbol.iterator](),
              ''.matchAll(/a/g), (function* () {})(), (async function* () {})()];
            for (const sample of samples) visit(getPrototypeOf(sample));
            for (const object of found) {
              if (typeof object === 'function' && !hasOwn(object, 'prototype')) freeze(object);
            }
            const builtins = found.size;
            // As global code. A library is trusted as the harness is.
            if (library !== '') evaluate(library);
            visitGlobals();
            // Its functions are methods too, but those that it adds to the global object.
            const globals = new Set(ownKeys(global).map((name) => global[name]));
            for (const object of [...found].slice(builtins)) {
              if (typeof object !== 'function' || globals.has(object)) continue;
              freeze(object);
              if (hasOwn(object, 'prototype')) freeze(object.prototype);
            }
            return [...found].filter((object) => !isFrozen(object));
          })();

          let records, recordCount = 0, globalsAreSame, globalCount = 0;

          // The prototype, names and properties of each object, as lists without prototypes.
          function noteBuiltins() {
            records = create(null);
            recordCount = objects.length;
            for (let i = 0; i < recordCount; i += 1) {
              const object = objects[i];
              const keys = ownKeys(object);
              const record = create(null);
              record.object = object;
              record.parent = getPrototypeOf(object);
              record.count = keys.length;
              record.enumerable = enumerate(object);
              record.isExtensible = isExtensible(object);
              record.names = create(null);
              record.properties = create(null);
              for (let j = 0; j < keys.length; j += 1) {
                record.names[j] = keys[j];
                record.properties[j] = descriptorOf(object, keys[j]);
              }
              records[i] = record;
            }
            globalCount = enumerate(global);
            isMarked = false;
          }

          // Makes the comparisons, before the first document: a function that is only checked needs none.
          function compareQuickly() {
            for (let i = 0; i < recordCount; i += 1) {
              const record = records[i];
              record.isSame = comparison(record.object, record.names, record.properties, record.count);
            }
            const properties = create(null);
            for (let i = 0; i < count; i += 1) properties[i] = values[names[i]];
            globalsAreSame = comparison(global, names, properties, count);
          }

          // A function that compares the values of an object with those of its properties.
          function comparison(object, names, properties, count) {
            let noted = '', test = 'true';
            for (let i = 0; i < count; i += 1) {
              const property = properties[i];
              if (property.get !== undefined || property.set !== undefined) continue;
              const value = property.value;
              noted += 'const value' + i + ' = properties[' + i + '].value, name' + i + ' = names[' + i + '];';
              const place = typeof names[i] === 'symbol' ? '[name' + i + ']' : '[' + stringify(names[i]) + ']';
              test += value === value ? ' && object' + place + ' === value' + i
                : ' && object' + place + ' !== object' + place;
            }
            return evaluate('(function (object, names, properties) { "use strict";' + noted +
              'return function () { return ' + test + '; }; })')(object, names, properties);
          }

          function enumerate(object) {
            let found = 0;
            for (const name in object) found += 1;
            return found;
          }

          function isSame(one, other) {
            return one === other || one !== one && other !== other;
          }

          function isIntact(record) {
            const object = record.object;
            if (getPrototypeOf(object) !== record.parent) return false;
            // A value may be a getter now, which must not be called.
            if (isMarked) return isUnchanged(record);
            return enumerate(object) === record.enumerable && record.isSame();
          }

          function isUnchanged(record) {
            const object = record.object;
            if (ownKeys(object).length !== record.count) return false;
            if (isExtensible(object) !== record.isExtensible) return false;
            for (let j = 0; j < record.count; j += 1) {
              const now = descriptorOf(object, record.names[j]), then = record.properties[j];
              if (now === undefined || !isSame(now.value, then.value) || now.get !== then.get ||
                now.set !== then.set || now.writable !== then.writable ||
                now.enumerable !== then.enumerable || now.configurable !== then.configurable) {
                return false;
              }
            }
            return true;
          }

          function prepare() {
            notes = 0;
            if (globalsAreSame === undefined) compareQuickly();
            const isSwept = isMarked || enumerate(global) !== globalCount || !globalsAreSame();
            if (isSwept && !sweep()) return false;
            for (let i = 0; i < recordCount; i += 1) {
              if (!isIntact(records[i])) return false;
            }
            isMarked = false;
            // RegExp.lastMatch and its like.
            match(noMatch, '');
            return true;
          }

          function accept(value) {
            make = value;
            user = make();
            isNew = true;
            return typeof user === 'function';
          }

          function call(value) {
            if (!isNew) user = make();
            isNew = false;
            const context = meta;
            meta = value;
            user(value, context[0], context[1]);
          }

          function seedText() {
            return typeof meta === 'object' && meta !== null ? meta._id : '';
          }

          function refuse(error) {
            let kind, text;
            try {
              if (typeof error === 'object' && error !== null) {
                const forbidden = error.forbidden;
                const unauthorized = error.unauthorized;
                if (forbidden) {
                  text = jsonText(forbidden);
                  kind = '"forbidden"';
                } else if (unauthorized) {
                  text = jsonText(unauthorized);
                  kind = '"unauthorized"';
                }
              }
            } catch (another) {
              kind = undefined;
            }
            if (kind === undefined) {
              describe(error);
              kind = '"exception"';
              text = '[' + stringify(problem) + ',' + cells[LINE] + ']';
            }
            try {
              add(kind, text);
            } catch (another) {}
          }

        """#
}
