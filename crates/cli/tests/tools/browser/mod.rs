//! Drives a headless Chromium over its DevTools protocol, whose messages pass through two pipes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

/// A hanging browser fails the test after this time.
const TIMEOUT: Duration = Duration::from_secs(120);

const MISSING: &str = "Chromium does not answer: is it installed? `cargo xtask setup` installs it";

/// The width of the page in pixels.
pub const WIDTH: u32 = 1200;

/// A color scheme of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

/// A browser that shows one page.
pub struct Browser {
    process: Child,
    input: File,
    messages: Receiver<Value>,
    next_id: u64,
    session: Option<String>,
    /// Errors and warnings of the page's console, and what it tried to load.
    problems: Vec<String>,
    is_loaded: bool,
    _directory: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser and opens a page in it.
    pub fn open(page: &Path, scheme: Scheme) -> Self {
        let mut this = Self::start();
        let target = this.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            this.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        this.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            this.call(&format!("{domain}.enable"), json!({}));
        }
        this.resize(WIDTH);
        this.set_scheme(scheme);
        this.show(page);
        this
    }

    /// Makes the page so many pixels wide.
    pub fn resize(&mut self, width: u32) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Opens another page, or the same file again.
    pub fn show(&mut self, page: &Path) {
        self.is_loaded = false;
        self.call("Page.navigate", json!({ "url": format!("file:{}", page.display()) }));
        while !self.is_loaded {
            self.receive();
        }
        self.settle();
    }

    fn start() -> Self {
        let directory = tempfile::tempdir().expect("scratch directories can be created");
        let script = "cd \"$0\" && mkfifo in out && : > ready && exec chromium \"$@\" 3< in 4> out";
        let mut command = Command::new("sh");
        // A browser that is killed leaves its temporary files.
        command.args(["-c", script]).arg(directory.path()).env("TMPDIR", directory.path());
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            "--user-data-dir=profile",
        ]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.expect("a shell can be started");
        while !directory.path().join("ready").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let input = File::options().write(true).open(directory.path().join("in"));
        let output = File::open(directory.path().join("out"));
        let (sender, messages) = mpsc::channel();
        let output = BufReader::new(output.expect("the pipe exists"));
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser sends JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            input: input.expect("the pipe exists"),
            messages,
            next_id: 1,
            session: None,
            problems: Vec::new(),
            is_loaded: false,
            _directory: directory,
        }
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect(MISSING);
        loop {
            let reply = self.receive();
            if reply["id"] == id {
                assert!(reply.get("error").is_none(), "{method}: {reply}");
                return reply["result"].clone();
            }
        }
    }

    /// The next message; notes what it says about the page.
    fn receive(&mut self) -> Value {
        let message = self.messages.recv_timeout(TIMEOUT).expect(MISSING);
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.is_loaded = true,
            "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => {
                self.problems.push(parameters.to_string());
            }
            "Network.requestWillBeSent" if parameters["type"] != "Document" => {
                self.problems.push(format!("request of {}", parameters["request"]["url"]));
            }
            _ => {}
        }
        message
    }

    /// The value of an expression, which may be a promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// The value of an expression that is a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.value(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    /// Waits until what is due has been drawn.
    pub fn settle(&mut self) {
        let frame = "new Promise((done) => requestAnimationFrame(done))";
        self.value(&format!("{frame}.then(() => {frame}).then(() => {frame}).then(() => 0)"));
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str) {
        let is_text = key.chars().count() == 1;
        let mut down = json!({ "type": if is_text { "keyDown" } else { "rawKeyDown" }, "key": key });
        if is_text {
            down["text"] = key.into();
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
        self.settle();
    }

    /// Types into what has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
        self.settle();
    }

    /// Moves the pointer, or presses or releases its button there, relative to an element, which is scrolled
    /// into view.
    pub fn mouse(&mut self, event: &str, selector: &str, (x, y): (f64, f64)) {
        let (left, top) = self.place(selector);
        let buttons = u32::from(event != "mouseReleased");
        let is_move = event == "mouseMoved";
        self.call(
            "Input.dispatchMouseEvent",
            json!({
                "type": event,
                "x": left + x,
                "y": top + y,
                "button": if is_move { "none" } else { "left" },
                "buttons": if is_move { 0 } else { buttons },
                "clickCount": u32::from(!is_move),
            }),
        );
        self.settle();
    }

    /// Clicks at a point of an element.
    pub fn click(&mut self, selector: &str, at: (f64, f64)) {
        self.mouse("mouseMoved", selector, at);
        self.mouse("mousePressed", selector, at);
        self.mouse("mouseReleased", selector, at);
    }

    /// Turns the wheel over a point of an element while Ctrl is pressed.
    pub fn wheel_with_ctrl(&mut self, selector: &str, (x, y): (f64, f64), by: f64) {
        let (left, top) = self.place(selector);
        let parameters = json!({
            "type": "mouseWheel", "x": left + x, "y": top + y, "deltaX": 0, "deltaY": by, "modifiers": 2,
        });
        self.call("Input.dispatchMouseEvent", parameters);
        self.settle();
    }

    fn place(&mut self, selector: &str) -> (f64, f64) {
        let rectangle = format!("document.querySelector({})", Value::from(selector));
        self.value(&format!("{rectangle}.scrollIntoView({{ block: 'center', behavior: 'instant' }}), 0"));
        let left = self.number(&format!("{rectangle}.getBoundingClientRect().left"));
        (left, self.number(&format!("{rectangle}.getBoundingClientRect().top")))
    }

    /// Changes the color scheme that the user prefers.
    pub fn set_scheme(&mut self, scheme: Scheme) {
        let value = if scheme == Scheme::Dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// The red, green and blue of each pixel of a canvas, most frequent first, with their number.
    pub fn pixels(&mut self, selector: &str) -> Vec<(String, u64)> {
        let canvas = format!("document.querySelector({})", Value::from(selector));
        let counts = self.value(&format!(
            "(() => {{
                const canvas = {canvas};
                // Reading a canvas that the page draws to would make the browser warn.
                const copy = new OffscreenCanvas(canvas.width, canvas.height);
                const context = copy.getContext('2d', {{ willReadFrequently: true }});
                context.drawImage(canvas, 0, 0);
                const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
                const counts = new Map();
                for (let at = 0; at < pixels.length; at += 4) {{
                    const key = [pixels[at], pixels[at + 1], pixels[at + 2]].join();
                    counts.set(key, (counts.get(key) ?? 0) + 1);
                }}
                return [...counts].sort((a, b) => b[1] - a[1]);
            }})()"
        ));
        serde_json::from_value(counts).expect("pairs of a color and a count")
    }

    /// Fails if the page's console has a message, or if the page tried to load anything.
    pub fn assert_quiet(&mut self) {
        // What happened before a reply has been received with it.
        self.value("0");
        assert!(self.problems.is_empty(), "{:#?}", self.problems);
    }

    /// Writes what the page looks like if `REHAL_SCREENSHOTS` names a directory.
    pub fn screenshot(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("REHAL_SCREENSHOTS") else { return };
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", parameters);
        let bytes = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            picture["data"].as_str().expect("the picture is text"),
        );
        let path = Path::new(&directory).join(format!("{name}.png"));
        fs::write(path, bytes.expect("the picture is base64")).expect("the directory exists");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
