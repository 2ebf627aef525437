internal import Bytes
internal import CJavaScriptCore
internal import Wire

/// One author's function in a JavaScript context of its own, behind the harness.
///
/// A context per function costs 0.2 ms and 100 KiB; what a function does to builtins and globals
/// can then harm no other function.
final class ScriptContext {
    enum Creation {
        case ready(ScriptContext)
        /// Line of the author's text or 0, and why it is refused.
        case refused(line: UInt32, text: String)
    }

    enum Outcome {
        case value(JSValueRef)
        /// An exception, also if the watch ended the execution.
        case exception(JSValueRef?)
    }

    private let context: JSGlobalContextRef
    private let cells: HarnessCells
    /// The harness's functions, as properties.
    private let harness: JSObjectRef
    private let entries: [Entry: JSObjectRef]

    enum Entry: String, CaseIterable {
        case run, results, note, install, sweep, describe, problem, trace
    }

    private init?(group: JSContextGroupRef, _ definition: ScriptDefinition, _ cells: HarnessCells) {
        guard let context = JSGlobalContextCreateInGroup(group, nil) else { return nil }
        self.context = context
        self.cells = cells
        guard let harness = ScriptContext.makeHarness(context, definition, cells: cells) else {
            JSGlobalContextRelease(context)
            return nil
        }
        self.harness = harness
        JSValueProtect(context, harness)
        var entries: [Entry: JSObjectRef] = [:]
        for entry in Entry.allCases {
            let name = EngineText(entry.rawValue)
            let value = JSObjectGetProperty(context, harness, name.reference, nil)
            entries[entry] = JSValueToObject(context, value, nil)
        }
        self.entries = entries
    }

    deinit {
        JSValueUnprotect(context, harness)
        JSGlobalContextRelease(context)
    }

    /// Evaluates the source of a definition, which must be one function, after its library.
    static func create(
        _ definition: ScriptDefinition,
        in group: JSContextGroupRef,
        cells: HarnessCells,
        watch: ExecutionWatch
    ) -> Creation {
        let source = trimmed(definition.source)
        guard !source.isEmpty else {
            return .refused(line: 0, text: notAFunction(definition.use))
        }
        guard let context = ScriptContext(group: group, definition, cells) else {
            let what = definition.library.isEmpty ? "No context" : "No context with the library"
            return .refused(line: 0, text: "\(what) can be made for the function.")
        }
        return context.install(source, use: definition.use, watch: watch)
    }

    private func install(_ source: ByteView, use: ScriptUse, watch: ExecutionWatch) -> Creation {
        let wrapped = ByteWriter(capacity: source.count + 4)
        // A sync function is made anew for each document.
        wrapped.append(use == .sync ? "(function () { return (" : "(")
        wrapped.append(source)
        wrapped.append(use == .sync ? "\n) })" : "\n)")
        let text = EngineText(wrapped.view)
        let name = EngineText(Harness.authorName)
        var exception: JSValueRef?
        watch.begin(timeoutMilliseconds: ScriptLimits.mapTimeoutMilliseconds)
        let value = JSEvaluateScript(context, text.reference, nil, name.reference, 1, &exception)
        guard let value else { return refusal(exception, of: source, watch) }
        guard JSValueIsObject(context, value),
            JSObjectIsFunction(context, JSValueToObject(context, value, nil))
        else { return .refused(line: 0, text: ScriptContext.notAFunction(use)) }
        // This makes a sync function, by its source.
        switch call(.install, [value]) {
        case .exception(let exception): return refusal(exception, of: source, watch)
        case .value(let isInstalled):
            return JSValueToBoolean(context, isInstalled)
                ? .ready(self) : .refused(line: 0, text: ScriptContext.notAFunction(use))
        }
    }

    /// Why a source is refused whose evaluation ended with an exception.
    private func refusal(
        _ exception: JSValueRef?,
        of source: ByteView,
        _ watch: ExecutionWatch
    ) -> Creation {
        if watch.hasTimedOut {
            return .refused(line: 0, text: "The source does not evaluate to a function in time.")
        }
        let (line, text) = describe(exception, isDefinition: true)
        let lines = source.buffer.count { $0 == UInt8(ascii: "\n") } + 1
        return .refused(line: min(line, UInt32(lines)), text: text)
    }

    private static func makeHarness(
        _ context: JSGlobalContextRef,
        _ definition: ScriptDefinition,
        cells: HarnessCells
    ) -> JSObjectRef? {
        let source = EngineText(Harness.source(for: definition.use))
        let limits = EngineText(Harness.limits)
        let library = EngineText(definition.library)
        guard
            let function = JSEvaluateScript(context, source.reference, nil, nil, 1, nil),
            let array = JSObjectMakeTypedArrayWithBytesNoCopy(
                context,
                kJSTypedArrayTypeUint32Array,
                cells.words,
                HarnessCells.count * MemoryLayout<UInt32>.size,
                nil,
                nil,
                nil
            )
        else { return nil }
        let arguments: [JSValueRef?] = [
            array, JSValueMakeBoolean(context, definition.use == .reduce),
            JSValueMakeFromJSONString(context, limits.reference),
            JSValueMakeString(context, library.reference),
        ]
        let object = JSValueToObject(context, function, nil)
        return JSObjectCallAsFunction(context, object, nil, arguments.count, arguments, nil)
            .flatMap { JSValueToObject(context, $0, nil) }
    }

    // MARK: Calls

    /// Calls a function of the harness.
    func call(_ entry: Entry, _ arguments: [JSValueRef?] = []) -> Outcome {
        var exception: JSValueRef?
        let value = JSObjectCallAsFunction(
            context,
            entries[entry],
            nil,
            arguments.count,
            arguments,
            &exception
        )
        if let value, exception == nil { return .value(value) }
        return .exception(exception)
    }

    /// Calls the author's function for items from `from` up to `to` of an array that `parse` made.
    func run(_ items: JSValueRef, from: Int, to: Int, base: Int, isRereduce: Bool) -> Outcome {
        call(
            .run,
            [
                items, JSValueMakeNumber(context, Double(from)),
                JSValueMakeNumber(context, Double(to)), JSValueMakeNumber(context, Double(base)),
                JSValueMakeBoolean(context, isRereduce),
            ]
        )
    }

    /// Calls a function of the harness that returns a text, and appends that to `output`.
    ///
    /// - Returns: Whether the function returned.
    @discardableResult
    func append(_ entry: Entry, to output: ByteWriter) -> Bool {
        guard case .value(let value) = call(entry),
            let string = JSValueToStringCopy(context, value, nil)
        else { return false }
        EngineText.append(string, to: output)
        JSStringRelease(string)
        return true
    }

    /// Removes the globals that were added, and restores those that were changed.
    ///
    /// - Returns: Whether the global object is as it was after the definition.
    func sweep() -> Bool {
        guard case .value(let value) = call(.sweep) else { return false }
        return JSValueToBoolean(context, value)
    }

    /// Parses a JSON array of `count` elements; nil if the text is none.
    ///
    /// The value is protected: `release` it.
    func parse(_ text: EngineText, count: Int) -> JSValueRef? {
        guard let value = JSValueMakeFromJSONString(context, text.reference),
            JSValueIsArray(context, value)
        else { return nil }
        let name = EngineText("length")
        let array = JSValueToObject(context, value, nil)
        let length = JSObjectGetProperty(context, array, name.reference, nil)
        guard JSValueToNumber(context, length, nil) == Double(count) else { return nil }
        JSValueProtect(context, value)
        return value
    }

    func release(_ value: JSValueRef) { JSValueUnprotect(context, value) }

    func collectGarbage() { JSGarbageCollect(context) }

    // MARK: Exceptions

    /// The line of the author's text, or 0, and the text of an exception, by the harness.
    func describe(_ exception: JSValueRef?, isDefinition: Bool) -> (line: UInt32, text: String) {
        guard let exception, case .value = call(.describe, [exception]) else {
            return (0, "An exception that cannot be shown.")
        }
        return describeLast(isDefinition: isDefinition)
    }

    /// The same for the exception that the harness caught last.
    func describeLast(isDefinition: Bool = false) -> (line: UInt32, text: String) {
        let output = ByteWriter()
        append(.problem, to: output)
        let text = output.view.text
        output.removeAll()
        append(.trace, to: output)
        let line = ScriptContext.line(inTrace: output.view.text)
        // The property is also that of code which the function made by itself.
        return (line ?? (isDefinition ? cells.line : 0), text)
    }

    /// The line of the innermost call of the author's text; nil if there is none.
    static func line(inTrace trace: String) -> UInt32? {
        for call in trace.split(separator: "\n") {
            let parts = call.split(separator: "@").last?.split(separator: ":") ?? []
            if parts.count >= 2, parts[0] == Harness.authorName { return UInt32(parts[1]) }
        }
        return nil
    }

    // MARK: Sources

    private static func notAFunction(_ use: ScriptUse) -> String {
        let example =
            switch use {
            case .map: "function (doc, meta) { emit(meta.id, null); }"
            case .reduce: "function (keys, values, rereduce) { return sum(values); }"
            case .sync: "function (doc, oldDoc) { channel(doc.channels); }"
            }
        return "The source must be one function, such as: \(example)"
    }

    /// Without the blanks and semicolons after a function, which are common and mean nothing.
    private static func trimmed(_ source: ByteView) -> ByteView {
        var end = source.count
        while end > 0, " \t\r\n;".utf8.contains(source[end - 1]) { end -= 1 }
        return source.slice(0, end)
    }
}
