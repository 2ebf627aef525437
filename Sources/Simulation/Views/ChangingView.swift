internal import JSON

/// The view whose definition changes while it is queried (`ViewAuthor`).
///
/// All versions have a reduce function and keys that are lists, so each accepts the same questions. No
/// other view has their map functions: each change builds an index.
package enum ChangingView {
    static let document = "changing"
    /// Has versions before they are published; it is not queried.
    static let developmentDocument = "dev_changing"

    /// The definitions; the first one also stands for the view in questions.
    package static let versions = [
        version(.sevens, .sum), version(.pairs, .count), version(.odd, .largest),
    ]

    private static func version(
        _ map: ViewFunction,
        _ reduce: SimulatedView.Reduce
    ) -> SimulatedView {
        SimulatedView(document: document, name: "rows", map: map, reduce: reduce)
    }

    /// The text of a design document with a version; the number names the request that puts it.
    package static func body(version: Int, request: Int) -> [UInt8] {
        let view = versions[version]
        let reduce = view.reduce.map { #","reduce":"\#($0.rawValue)""# } ?? ""
        let text = #""\#(view.name)":{"map":"\#(view.map.source)"\#(reduce)}"#
        return Array(#"{"views":{\#(text)},"request":\#(request)}"#.utf8)
    }

    /// The number of the request that put a text; nil if it is another one's.
    package static func request(of body: [UInt8]) -> Int? {
        JSONValue.parse(String(decoding: body, as: UTF8.self))?["request"]?.int
    }
}
