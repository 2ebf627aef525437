// swift-tools-version:6.2
import PackageDescription

// MARK: The house plan
//
// One row per module: its floor, its name, and everything it may import. Rows only look up, never
// down. ARCHITECTURE.md carries the same table, and TidyTests keeps the two, and every `import`
// line in the sources, in agreement. A row comes with its module.

let plan = """
    words      Bytes              CLZ4 CPrefetch CSnappy
    words      Vocabulary         Bytes
    words      Seams              Bytes Vocabulary
    codecs     Wire               Bytes Vocabulary
    codecs     JSON               Bytes CICU CSimdjson
    codecs     SyncWire           Bytes JSON
    machines   Engine             Bytes Vocabulary
    machines   Consensus          Bytes Vocabulary
    machines   Orchestration      Bytes Vocabulary JSON
    machines   Replication        Vocabulary Wire
    machines   Indexing           Bytes Vocabulary JSON
    machines   Scripting
    machines   SubDocument        Bytes Vocabulary Wire JSON
    machines   Revisions          Bytes JSON SyncWire
    machines   Syncing            Bytes JSON SyncWire
    adapters   Credentials        Bytes Vocabulary swift-crypto/Crypto swift-crypto/CryptoExtras
    adapters   Persistence        Bytes Vocabulary Seams CSQLite
    adapters   ScriptEngine       Bytes Wire CJavaScriptCore
    adapters   ScriptProcesses    Bytes Seams Wire JSON Scripting
    adapters   Deflate            Bytes CZlib
    platforms  LinuxPlatform      Bytes Seams CLinux
    platforms  OpenSSLPlatform    Bytes Vocabulary Seams COpenSSL
    platforms  SimulatedPlatform  Bytes Seams CSQLite
    services   DataService        Bytes Vocabulary Seams Wire JSON Engine Replication SubDocument Credentials Persistence
    services   ClusterService     Bytes Vocabulary Seams Wire JSON Consensus Orchestration Credentials Persistence
    services   ViewService        Bytes Vocabulary Seams Wire JSON Indexing Scripting Credentials Persistence ScriptProcesses
    services   SyncService        Bytes Seams Wire JSON SyncWire Revisions Syncing Credentials ScriptProcesses
    assembly   Server             Bytes Vocabulary Seams Wire JSON Engine Indexing Orchestration Credentials Persistence ScriptProcesses DataService ClusterService ViewService
    facades    NIOSecurity        Bytes Vocabulary Seams swift-nio/NIOCore
    facades    HTTPFrontend       Bytes Vocabulary Seams JSON Indexing Orchestration Scripting ScriptProcesses ClusterService ViewService NIOSecurity hummingbird/HummingbirdCore swift-service-lifecycle/ServiceLifecycle swift-log/Logging swift-nio/NIOCore swift-nio/NIOHTTP1 swift-nio/NIOPosix swift-nio-extras/NIOHTTPTypes swift-http-types/HTTPTypes
    facades    SyncFrontend       Bytes Vocabulary Seams JSON SyncWire Scripting Revisions Syncing Credentials Deflate ScriptProcesses SyncService OpenSSLPlatform NIOSecurity swift-nio/NIOCore swift-nio/NIOPosix swift-nio/NIOHTTP1 swift-nio/NIOWebSocket
    facades    DivanClient        Bytes Vocabulary Seams Wire JSON Credentials
    facades    Simulation         Bytes Vocabulary Seams Wire JSON Engine Consensus Orchestration Indexing Persistence Credentials ScriptProcesses SimulatedPlatform DataService ClusterService ViewService Server DivanClient
    programs   divan-server       Bytes Vocabulary Seams LinuxPlatform OpenSSLPlatform Server HTTPFrontend swift-log/Logging swift-argument-parser/ArgumentParser
    programs   divan-gateway      Bytes Vocabulary Seams JSON SyncWire LinuxPlatform SyncFrontend
    programs   divan-bench        Bytes Vocabulary Seams Wire JSON Credentials LinuxPlatform OpenSSLPlatform DivanClient swift-argument-parser/ArgumentParser hdrhistogram-swift/Histogram
    measures   divan-micro        Bytes Vocabulary Seams Wire JSON Engine SubDocument Persistence LinuxPlatform DataService CSQLite COnDemand
    programs   divan-simulator    LinuxPlatform Simulation
    programs   divan-script       Bytes Wire ScriptEngine LinuxPlatform
    programs   divan-cluster      Bytes Seams LinuxPlatform OpenSSLPlatform DivanClient swift-argument-parser/ArgumentParser
    """

/// What the modules of a floor may import: the floors named, and nothing else.
let admits: [Substring: Set<Substring>] = [
    "words": ["words", "shims"],
    "codecs": ["words", "codecs", "shims"],
    "machines": ["words", "codecs"],  // Not each other: services introduce them.
    "adapters": ["words", "codecs", "machines", "shims", "packages"],  // One foreign thing each.
    "platforms": ["words", "shims", "packages"],
    "services": ["words", "codecs", "machines", "adapters"],  // Never a platform.
    "assembly": ["words", "codecs", "machines", "adapters", "services"],
    "facades": [
        "words", "codecs", "machines", "adapters", "platforms", "services", "assembly", "facades",
        "packages",
    ],
    // Programs that measure what is inside, so they may look at everything.
    "measures": ["words", "shims", "codecs", "machines", "adapters", "platforms", "services"],
    "programs": ["words", "codecs", "adapters", "platforms", "assembly", "facades", "packages"],
]

/// The programs that live outside Sources, where an operator looks for them.
let homes = [
    "divan-cluster": "cluster/Launcher", "divan-bench": "benchmarks/Driver",
    "divan-micro": "benchmarks/micro/Cases",
]

/// C libraries: a system library names the Debian package that brings it; the others have sources.
let systemLibraries = [
    "CLZ4": "liblz4-dev", "CSQLite": "libsqlite3-dev", "CSnappy": "libsnappy-dev",
    "CJavaScriptCore": "libjavascriptcoregtk-4.1-dev", "COpenSSL": "libssl-dev",
    "CZlib": "zlib1g-dev",
]
/// The system libraries whose headers only pkg-config finds, by its names.
let configured = ["CJavaScriptCore": "javascriptcoregtk-4.1"]
let sourceLibraries: [String: [LinkerSetting]] = [
    "CICU": [.linkedLibrary("icui18n"), .linkedLibrary("icuuc")],
    "CLinux": [],
    "CPrefetch": [],
    "COnDemand": [.linkedLibrary("simdjson")],
    "CSimdjson": [.linkedLibrary("simdjson")],
]

/// Outside packages, by the name a plan row uses: where they come from, and the one version that is built.
///
/// deps/packages.txt has the versions of these and of the packages that they bring along.
let packages: [Substring: (url: String, version: Version)] = [
    "hdrhistogram-swift": ("https://github.com/HdrHistogram/hdrhistogram-swift", "0.2.0"),
    "hummingbird": ("https://github.com/hummingbird-project/hummingbird", "2.28.1"),
    "swift-argument-parser": ("https://github.com/apple/swift-argument-parser", "1.8.2"),
    "swift-crypto": ("https://github.com/apple/swift-crypto", "4.5.2"),
    "swift-http-types": ("https://github.com/apple/swift-http-types", "1.8.0"),
    "swift-log": ("https://github.com/apple/swift-log", "1.16.2"),
    "swift-nio": ("https://github.com/apple/swift-nio", "2.101.2"),
    "swift-nio-extras": ("https://github.com/apple/swift-nio-extras", "1.35.2"),
    "swift-service-lifecycle": (
        "https://github.com/swift-server/swift-service-lifecycle", "2.13.0"
    ),
]

var settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// Which floors and tests are built.
///
/// Builds under a sanitizer (`address`, `thread`: Tests/lane) leave out the floors above the services
/// and the tests that are not about memory or threads; where a sanitizer watches memory, every block
/// comes from malloc. The fuzzer (Fuzzing/run) is a program of the lane `address`.
/// The lane `core` has the machines of the cluster and nothing else: it builds in seconds. The lane
/// `simulation` has what runs in the simulator: everything but HTTP and what speaks it.
/// `services` has what planted mistakes of the engine and the services are noticed by.
let lane = Context.environment["DIVAN_LANE"]
let upperFloors: Set<Substring> = ["assembly", "facades", "measures", "programs"]
let lanesLeaveOut =
    lane == "core" ? upperFloors.union(["adapters", "platforms", "services"]) : upperFloors
/// JavaScriptCore is in no lane: a sanitizer does not know the memory and the threads of its compiler.
///
/// OpenSSL is only where connections between nodes are tested; no lane has tests of the gateway's databases.
let inNoLane: Set<Substring> =
    lane == "services"
    ? ["ScriptEngine", "Deflate", "SyncService"]
    : ["ScriptEngine", "OpenSSLPlatform", "Deflate", "SyncService"]
/// The tests that have threads, by target: some files of it, or all of them if none is named.
///
/// All other tests of these targets run on one thread, where there is no race to detect.
let threaded: [String: [String]] = [
    "BytesTests": [],
    "DataServiceTests": ["ThreadTests.swift", "Helpers.swift"],
    "EngineTests": ["SharingTests.swift", "Stage.swift"],
    "LinuxPlatformTests": [],
    "PersistenceTests": [
        "IndexReaderTests.swift", "IndexSupport.swift", "Support.swift", "ThreadTests.swift",
    ],
]
/// What no test of the lane `thread` uses.
let threadless: Set<Substring> = [
    "Consensus", "Orchestration", "Indexing", "Scripting", "SyncWire", "Revisions", "Syncing",
    "ScriptProcesses", "SimulatedPlatform", "ClusterService", "ViewService", "SyncService",
]
let simulated: Set<Substring> = ["Server", "DivanClient", "Simulation", "divan-simulator"]
let laneTests: Set<String> =
    switch lane {
    case "core":
        [
            "TidyTests", "OrchestrationTests", "ConsensusTests", "ProtocolTests", "IndexingTests",
            "ScriptingTests", "BytesTests", "SyncWireTests", "RevisionsTests", "SyncingTests",
        ]
    case "simulation": ["TidyTests", "SimulationTests", "LinuxPlatformTests"]
    case "services":
        [
            "EngineTests", "ReplicationTests", "DataServiceTests", "ClusterServiceTests",
            "ViewServiceTests",
        ]
    case "thread": Set(threaded.keys)
    default:
        [
            "BytesTests", "WireTests", "JSONTests", "PersistenceTests", "EngineTests",
            "DataServiceTests", "LinuxPlatformTests", "ReplicationTests", "IndexingTests",
            "ScriptingTests", "SubDocumentTests", "SyncWireTests", "RevisionsTests", "SyncingTests",
        ]
    }
if lane == "address" { settings.append(.define("SYSTEM_ALLOCATOR")) }

/// Modules whose requests are procedures of one lane: their `async` functions run where their callers run, so that
/// a call asks the runtime for no executor.
let procedures: Set<String> = ["SyncService", "SyncFrontend"]

var floors: [Substring: Substring] = [:]
var shimsUsed: Set<String> = []
var packagesUsed: Set<Substring> = []
var targets: [Target] = []

for row in plan.split(separator: "\n").map({ $0.split(separator: " ") }) {
    let (floor, module, uses) = (row[0], row[1], row.dropFirst(2))
    let isSimulated = lane == "simulation" && simulated.contains(module)
    let isLeftOut = lanesLeaveOut.contains(floor) && !isSimulated || inNoLane.contains(module)
    if lane != nil, isLeftOut { continue }
    if lane == "thread", threadless.contains(module) { continue }
    var dependencies: [Target.Dependency] = []
    for use in uses {
        let parts = use.split(separator: "/")
        let isShim = systemLibraries[String(use)] != nil || sourceLibraries[String(use)] != nil
        let known: Substring? = parts.count == 2 ? "packages" : isShim ? "shims" : floors[use]
        guard let used = known else {
            fatalError("\(module) uses \(use), which no row above it names.")
        }
        guard let admitted = admits[floor], admitted.contains(used) else {
            fatalError("\(module) (\(floor)) may not use \(use) (\(used)).")
        }
        if isShim { shimsUsed.insert(String(use)) }
        if parts.count == 2 {
            packagesUsed.insert(parts[0])
            dependencies.append(.product(name: String(parts[1]), package: String(parts[0])))
        } else {
            dependencies.append(.target(name: String(use)))
        }
    }
    floors[module] = floor

    let path = homes[String(module)] ?? "Sources/\(module)"
    let name = String(module)
    let papers = ["README.md"] + (module == "Simulation" ? ["Corpus.md"] : [])
    let isProgram = floor == "programs" || floor == "measures"
    let resources: [Resource] = module == "HTTPFrontend" ? [.embedInCode("Console/Assets")] : []
    targets.append(
        isProgram
            ? .executableTarget(
                name: name,
                dependencies: dependencies,
                path: path,
                exclude: papers,
                swiftSettings: settings
            )
            : .target(
                name: name,
                dependencies: dependencies,
                path: path,
                exclude: papers,
                resources: resources,
                swiftSettings: settings
                    + (procedures.contains(name)
                        ? [.enableUpcomingFeature("NonisolatedNonsendingByDefault")] : [])
            )
    )
}

for shim in shimsUsed.sorted() {
    if let apt = systemLibraries[shim] {
        targets.append(
            .systemLibrary(
                name: shim,
                path: "Sources/Shims/\(shim)",
                pkgConfig: configured[shim],
                providers: [.apt([apt])]
            )
        )
    } else {
        targets.append(
            .target(
                name: shim,
                path: "Sources/Shims/\(shim)",
                linkerSettings: sourceLibraries[shim]
            )
        )
    }
}

// MARK: Tests: one target a module, and those that keep the house

let tests: [(name: String, uses: [String])] = [
    ("TidyTests", []),
    ("ProtocolTests", []),
    ("BytesTests", ["Bytes"]),
    ("WireTests", ["Wire", "Bytes", "Vocabulary"]),
    ("JSONTests", ["JSON", "Bytes", "CICU"]),
    ("SyncWireTests", ["SyncWire", "JSON", "Bytes"]),
    ("RevisionsTests", ["Revisions", "SyncWire", "JSON", "Bytes"]),
    ("SyncingTests", ["Syncing", "SyncWire", "JSON", "Bytes"]),
    (
        "LinuxPlatformTests",
        ["TestSupport", "Bytes", "Seams", "LinuxPlatform"]
            + (lane == nil ? ["divan-front-stand-in"] : [])
    ),
    ("OpenSSLPlatformTests", ["Bytes", "Seams", "LinuxPlatform", "OpenSSLPlatform"]),
    // The program is a dependency, so that it is there to be started.
    ("ScriptEngineTests", ["ScriptEngine", "divan-script", "Wire", "Bytes"]),
    (
        "ScriptProcessesTests",
        [
            "TestSupport", "ScriptProcesses", "Scripting", "divan-script", "LinuxPlatform", "Wire",
            "Seams", "Bytes",
        ]
    ),
    ("PersistenceTests", ["TestSupport", "Bytes", "Vocabulary", "Seams", "Persistence"]),
    ("ConsensusTests", ["Consensus", "Bytes", "Vocabulary"]),
    ("OrchestrationTests", ["TestSupport", "Orchestration", "Bytes", "Vocabulary"]),
    ("IndexingTests", ["TestSupport", "Indexing", "JSON", "Bytes", "Vocabulary"]),
    (
        "SyncServiceTests",
        [
            "TestSupport", "SyncService", "ScriptProcesses", "Scripting", "divan-script", "Syncing",
            "Revisions", "SyncWire", "Credentials", "LinuxPlatform", "Seams", "Bytes",
        ]
    ),
    ("ScriptingTests", ["TestSupport", "Scripting", "Bytes"]),
    ("SubDocumentTests", ["SubDocument", "JSON", "Wire", "Bytes", "Vocabulary"]),
    (
        "ViewServiceTests",
        [
            "TestSupport", "ViewService", "ScriptProcesses", "Scripting", "Indexing", "Persistence",
            "LinuxPlatform", "JSON", "Wire", "Seams", "Vocabulary", "Bytes",
        ]
    ),
    (
        "ClusterServiceTests",
        [
            "TestSupport", "ClusterService", "Consensus", "Persistence", "Orchestration",
            "Credentials", "LinuxPlatform", "OpenSSLPlatform", "Wire", "Vocabulary", "Seams",
            "Bytes",
        ]
    ),
    (
        "HTTPFrontendTests",
        [
            "TestSupport", "HTTPFrontend", "Server", "ViewService", "ClusterService",
            "Orchestration", "Indexing", "Scripting", "ScriptProcesses", "Credentials",
            "LinuxPlatform", "OpenSSLPlatform", "Seams", "Vocabulary", "Bytes",
        ]
    ),
    (
        "ReplicationTests",
        [
            "Replication", "Engine", "Persistence", "LinuxPlatform", "Wire", "Vocabulary", "Bytes",
        ]
    ),
    ("CredentialsTests", ["Credentials", "Bytes", "Vocabulary"]),
    ("DeflateTests", ["Deflate", "Bytes"]),
    (
        "SyncFrontendTests",
        [
            "TestSupport", "SyncFrontend", "SyncService", "Syncing", "SyncWire", "Credentials",
            "ScriptProcesses", "Scripting", "divan-script", "Deflate", "LinuxPlatform", "Seams",
            "Bytes",
        ]
    ),
    (
        "DivanClientTests",
        [
            "DivanClient", "DataService", "Credentials", "LinuxPlatform", "Wire", "Seams",
            "Vocabulary", "Bytes",
        ]
    ),
    ("EngineTests", ["Engine", "Bytes", "Vocabulary"]),
    (
        "DataServiceTests",
        [
            "TestSupport", "TestWorld", "DataService", "Engine", "Credentials", "Persistence",
            "Bytes", "Vocabulary", "Seams", "LinuxPlatform", "Wire",
        ]
    ),
    (
        "SimulationTests",
        [
            "SimulationStage", "divan-simulated-node", "divan-simulator", "Simulation",
            "SimulatedPlatform", "ClusterService", "Consensus", "Orchestration", "LinuxPlatform",
            "Persistence", "Wire", "Bytes", "Vocabulary", "Seams", "CSQLite",
        ]
    ),
]

// One double for each seam, for all tests; in every lane.
targets.append(
    .target(
        name: "TestSupport",
        dependencies: ["Bytes", "Seams", "Vocabulary"],
        path: "Tests/TestSupport",
        swiftSettings: settings
    )
)

// A data service without sockets, for tests and for the fuzzer.
if lane != "core" {
    targets.append(
        .target(
            name: "TestWorld",
            dependencies: [
                "TestSupport", "Bytes", "Vocabulary", "Seams", "Engine", "DataService",
                "LinuxPlatform",
            ],
            path: "Tests/TestWorld",
            swiftSettings: settings
        )
    )
}

// The lives of one node in the simulator, for tests and as a program.
if lane == nil || lane == "simulation" {
    targets.append(
        .target(
            name: "SimulationStage",
            dependencies: [
                "Bytes", "Vocabulary", "Seams", "SimulatedPlatform", "Persistence", "DataService",
                "TestWorld", "CSQLite",
            ],
            path: "Tests/SimulationStage",
            exclude: ["README.md"],
            swiftSettings: settings
        )
    )
    targets.append(
        .executableTarget(
            name: "divan-simulated-node",
            dependencies: ["SimulationStage"],
            path: "Tests/SimulatedNode",
            swiftSettings: settings
        )
    )
}

// A confined program for tests: only a process that begins with one thread can fork its spawner.
if lane == nil {
    targets.append(
        .executableTarget(
            name: "divan-front-stand-in",
            dependencies: ["Bytes", "Seams", "LinuxPlatform"],
            path: "Tests/StandInFront",
            swiftSettings: settings
        )
    )
}

if lane == "address" {
    targets.append(
        .executableTarget(
            name: "divan-fuzz",
            dependencies: [
                "TestSupport", "TestWorld", "DataService", "ClusterService",
                "Orchestration", "Replication", "Revisions", "Indexing", "SubDocument",
                "Persistence",
                "Credentials", "SyncWire", "JSON", "Wire", "Engine", "Seams", "Vocabulary", "Bytes",
            ],
            path: "Fuzzing",
            exclude: ["README.md", "run", "Seeds"],
            swiftSettings: settings,
            // libFuzzer brings `main`, so nothing else of the lane is linked with it.
            linkerSettings: [.unsafeFlags(["-sanitize=address,fuzzer"])]
        )
    )
}

// What is tested is always optimised. The tests themselves are not: optimising them doubles the time
// that they take to compile. These compute so much on their own that it pays.
let computing = [
    "EngineTests", "PersistenceTests", "ProtocolTests", "IndexingTests", "ScriptingTests",
]

/// Files of a test target that are not compiled.
///
/// ThreadSanitizer does not support a child that shares the memory of a process with threads, as a
/// child process does until its program is executed.
func excluded(_ name: String) -> [String] {
    switch name {
    case "ProtocolTests", "ConsensusTests": ["README.md"]
    case "LinuxPlatformTests":
        (lane == "thread" ? ["ChildTests.swift"] : [])
            + (lane == nil ? [] : ["FrontTests.swift", "SpawnerTests.swift"])
    default: []
    }
}

let built = tests.filter { lane == nil || laneTests.contains($0.name) }

targets += built.map { test in
    .testTarget(
        name: test.name,
        dependencies: test.uses.map { .target(name: $0) },
        path: "Tests/\(test.name)",
        exclude: excluded(test.name),
        sources: lane == "thread" ? threaded[test.name].flatMap { $0.isEmpty ? nil : $0 } : nil,
        swiftSettings: settings
            + (computing.contains(test.name) ? [] : [.unsafeFlags(["-Onone"])])
    )
}

let package = Package(
    name: "divan",
    dependencies: packagesUsed.sorted().compactMap { packages[$0] }
        .map { .package(url: $0.url, exact: $0.version) },
    targets: targets,
    cxxLanguageStandard: .cxx17
)
