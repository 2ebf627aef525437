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
